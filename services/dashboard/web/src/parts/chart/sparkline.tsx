import { toPath } from '../../lib/chart-scale.ts';
import classes from './sparkline.module.css';

const WIDTH = 96;
const HEIGHT = 20;

/** Shows values over time as a line without axes, in a row of a table. */
export function Sparkline({ label, values }: { label: string; values: readonly number[] }) {
  const max = Math.max(1, ...values);
  const step = WIDTH / Math.max(1, values.length - 1);
  const points = values.map((value, n) => ({
    x: n * step,
    y: HEIGHT - 1 - (value / max) * (HEIGHT - 2),
  }));
  return (
    <svg width={WIDTH} height={HEIGHT} role="img" aria-label={label} className={classes.line}>
      <path d={toPath(points)} />
    </svg>
  );
}
