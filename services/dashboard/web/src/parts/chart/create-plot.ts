/** Space beside the lines, in pixels, for the labels of the axes. */
const MARGIN = { top: 8, right: 12, bottom: 22, left: 54 };

/** Values over time; null where there is none. */
export interface Series {
  label: string;
  /** CSS colour. */
  color: string;
  values: readonly (number | null)[];
}

interface PlotSize {
  width: number;
  height: number;
  times: readonly number[];
  /** Greatest value of the axis. */
  max: number;
}

/** Places of times and values in a chart, in pixels. */
export type Plot = ReturnType<typeof createPlot>;

/** Creates the scales of a chart: times from left to right, values from 0 at the bottom. */
export function createPlot({ width, height, times, max }: PlotSize) {
  const left = MARGIN.left;
  const right = Math.max(left + 1, width - MARGIN.right);
  const bottom = height - MARGIN.bottom;
  const first = times[0] ?? 0;
  const span = (times.at(-1) ?? first) - first;
  // A single minute is in the middle.
  const x = (at: number): number =>
    span === 0 ? (left + right) / 2 : left + ((at - first) / span) * (right - left);
  const y = (value: number): number => bottom - (value / max) * (bottom - MARGIN.top);
  return {
    ...{ left, right, bottom, top: MARGIN.top, x, y },
    /** Returns the number of the minute that is nearest to a place. */
    findNearest(place: number): number | undefined {
      const distances = times.map((at) => Math.abs(x(at) - place));
      return times.length === 0 ? undefined : distances.indexOf(Math.min(...distances));
    },
  };
}
