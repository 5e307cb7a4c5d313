import { findTimeTicks } from '../../lib/chart-scale.ts';
import { formatClock } from '../../lib/times.ts';
import type { Plot } from './create-plot.ts';
import classes from './line-chart.module.css';

/** Width of a time with its distance to the next one. */
const TIME_WIDTH = 64;

interface AxesProps {
  plot: Plot;
  times: readonly number[];
  ticks: readonly number[];
  format: (value: number) => string;
}

/** Draws the lines and labels behind a chart. */
export function Axes({ plot, times, ticks, format }: AxesProps) {
  const { left, right, bottom, x, y } = plot;
  const count = Math.max(1, Math.floor((right - left) / TIME_WIDTH));
  return (
    <g className={classes.axes}>
      {ticks.map((value) => (
        <g key={value}>
          <line x1={left} x2={right} y1={y(value)} y2={y(value)} />
          <text x={left - 8} y={y(value)} dy="0.32em" textAnchor="end">
            {format(value)}
          </text>
        </g>
      ))}
      {findTimeTicks(times, count).map((at) => (
        <text key={at} x={x(at)} y={bottom + 16} textAnchor="middle">
          {formatClock(at).slice(0, 5)}
        </text>
      ))}
    </g>
  );
}
