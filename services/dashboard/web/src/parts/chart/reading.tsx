import { formatClock } from '../../lib/times.ts';
import type { Plot, Series } from './create-plot.ts';
import classes from './line-chart.module.css';

interface ReadingProps {
  plot: Plot;
  times: readonly number[];
  series: readonly Series[];
  /** Number of the minute. */
  index: number;
  /** The minute was not complete when its values were read. */
  isSoFar: boolean;
  format: (value: number) => string;
}

/** Shows the values of one minute beside a line through it. */
export function Reading({ plot, times, series, index, isSoFar, format }: ReadingProps) {
  const at = times[index] ?? 0;
  const x = plot.x(at);
  const isRight = x > (plot.left + plot.right) / 2;
  return (
    <>
      <div
        className={classes.cursor}
        style={{ left: x, top: plot.top, height: plot.bottom - plot.top }}
      />
      <div
        className={classes.reading}
        style={isRight ? { right: `calc(100% - ${x - 10}px)` } : { left: x + 10 }}
      >
        <strong>
          {formatClock(at).slice(0, 5)}
          {isSoFar && ', so far'}
        </strong>
        {series.map(({ label, color, values }) => (
          <span key={label} className={classes.value}>
            <span className={classes.key} style={{ background: color }} />
            {label}
            <b>{formatValue(values[index], format)}</b>
          </span>
        ))}
      </div>
    </>
  );
}

function formatValue(value: number | null | undefined, format: (value: number) => string) {
  return value === null || value === undefined ? '–' : format(value);
}
