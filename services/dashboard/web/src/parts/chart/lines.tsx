import { type Point, splitRuns, toPath } from '../../lib/chart-scale.ts';
import type { Plot, Series } from './create-plot.ts';
import classes from './line-chart.module.css';

interface LinesProps {
  plot: Plot;
  times: readonly number[];
  series: readonly Series[];
  /** Number of the minutes that the lines connect. */
  complete: number;
}

/** Draws the lines of a chart. The values so far of minutes that are not complete are rings beside the lines. */
export function Lines({ plot, times, series, complete }: LinesProps) {
  return series.map(({ label, color, values }) => {
    const points = times.map((at, n) => toPoint(plot, at, values[n]));
    return (
      <g key={label} className={classes.line} style={{ stroke: color, fill: color }}>
        {splitRuns(points.slice(0, complete)).map((run) => (
          <Run key={run[0]?.x} points={run} bottom={plot.bottom} />
        ))}
        {points
          .slice(complete)
          .map(
            (point) =>
              point && (
                <circle
                  key={point.x}
                  className={classes.unfinished}
                  cx={point.x}
                  cy={point.y}
                  r={3}
                />
              ),
          )}
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
