import { type Point, splitRuns, toPath } from '../../lib/chart-scale.ts';
import type { Plot, Series } from './create-plot.ts';
import classes from './line-chart.module.css';

interface LinesProps {
  plot: Plot;
  times: readonly number[];
  series: readonly Series[];
}

/** Draws the lines of a chart. The part up to the last minute, which has not ended, is dashed. */
export function Lines({ plot, times, series }: LinesProps) {
  return series.map(({ label, color, values }) => {
    const points = times.map((at, n) => toPoint(plot, at, values[n]));
    const last = points.at(-1);
    const beforeLast = points.at(-2);
    return (
      <g key={label} className={classes.line} style={{ stroke: color, fill: color }}>
        {splitRuns(points.slice(0, -1)).map((run) => (
          <Run key={run[0]?.x} points={run} bottom={plot.bottom} />
        ))}
        {last !== undefined && beforeLast !== undefined && (
          <path className={classes.unfinished} d={toPath([beforeLast, last])} />
        )}
        {last !== undefined && <circle cx={last.x} cy={last.y} r={2.5} />}
      </g>
    );
  });
}

function Run({ points, bottom }: { points: readonly Point[]; bottom: number }) {
  const [first] = points;
  const last = points.at(-1);
  if (first === undefined || last === undefined) return null;
  if (points.length === 1) return <circle cx={first.x} cy={first.y} r={2} />;
  const line = toPath(points);
  return (
    <>
      <path className={classes.area} d={`${line}L${last.x} ${bottom}L${first.x} ${bottom}Z`} />
      <path d={line} />
    </>
  );
}

function toPoint(plot: Plot, at: number, value: number | null | undefined): Point | undefined {
  return value === null || value === undefined ? undefined : { x: plot.x(at), y: plot.y(value) };
}
