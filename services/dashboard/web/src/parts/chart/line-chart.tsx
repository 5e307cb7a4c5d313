import { useElementSize } from '@mantine/hooks';
import { type PointerEvent, useState } from 'react';
import { countComplete, findTicks } from '../../lib/chart-scale.ts';
import { Axes } from './axes.tsx';
import { createPlot, type Series } from './create-plot.ts';
import classes from './line-chart.module.css';
import { Lines } from './lines.tsx';
import { Reading } from './reading.tsx';

interface LineChartProps {
  /** Says in words what the chart shows. */
  label: string;
  /** Beginnings of the minutes, unix milliseconds. */
  times: readonly number[];
  /** Time at which the values were read: the lines end before the minutes that were not complete by then. */
  readAt: number;
  series: readonly Series[];
  height: number;
  format: (value: number) => string;
  /** Shorter form for the axis. */
  formatTick?: (value: number) => string;
  /** Least distance of two ticks: 1 for what is counted. */
  minStep?: number;
}

const TICKS = 4;

/** Shows values over time as lines. Where the pointer is, it shows the values of that minute. */
export function LineChart(props: LineChartProps) {
  const { label, times, readAt, series, height, format, formatTick = format, minStep = 0 } = props;
  const { ref, width } = useElementSize();
  const [pointed, setPointed] = useState<number>();
  const max = Math.max(0, ...series.flatMap(({ values }) => values.map((value) => value ?? 0)));
  const ticks = findTicks(max, TICKS, minStep);
  const complete = countComplete(times, readAt);
  const plot = createPlot({ width, height, times, max: ticks.at(-1) ?? 1 });
  const point = ({ clientX, currentTarget }: PointerEvent): void =>
    setPointed(plot.findNearest(clientX - currentTarget.getBoundingClientRect().left));
  return (
    <div>
      <ul className={classes.legend} aria-hidden>
        {series.map(({ label: name, color }) => (
          <li key={name}>
            <span className={classes.key} style={{ background: color }} />
            {name}
          </li>
        ))}
        {complete < times.length && (
          <li>
            <span className={classes.unfinishedKey} />
            Minute so far
          </li>
        )}
      </ul>
      <div
        ref={ref}
        className={classes.frame}
        style={{ height }}
        onPointerMove={point}
        onPointerDown={point}
        onPointerLeave={() => setPointed(undefined)}
      >
        {width > 0 && (
          <svg width={width} height={height} role="img" aria-label={label}>
            <Axes plot={plot} times={times} ticks={ticks} format={formatTick} />
            <Lines plot={plot} times={times} series={series} complete={complete} />
          </svg>
        )}
        {pointed !== undefined && pointed < times.length && (
          <Reading
            plot={plot}
            times={times}
            series={series}
            index={pointed}
            isSoFar={pointed >= complete}
            format={format}
          />
        )}
      </div>
    </div>
  );
}
