const STEPS = [1, 2, 2.5, 5, 10];
const MINUTE_MS = 60_000;
/** Processes send their counts every 5 s, so that those of a minute come a little after its end. */
const COUNTS_ARRIVE_WITHIN_MS = 6_000;
const MINUTE_STEPS = [1, 2, 5, 10, 15, 30, 60];

/** Returns the ticks of an axis from 0 to at least `max`: round numbers, at most `count` and the 0. */
export function findTicks(max: number, count: number, minStep = 0): number[] {
  const atLeast = Math.max(max, minStep * count, Number.MIN_VALUE) / count;
  const magnitude = 10 ** Math.floor(Math.log10(atLeast));
  const factor = STEPS.find((one) => one * magnitude >= atLeast * (1 - 1e-9)) ?? 10;
  const step = Math.max(factor * magnitude, minStep);
  const steps = Math.max(1, Math.ceil(max / step - 1e-9));
  return Array.from({ length: steps + 1 }, (_, n) => Number((n * step).toPrecision(12)));
}

/** Returns the times of an axis that have a label: round minutes, at most `count`. */
export function findTimeTicks(times: readonly number[], count: number): number[] {
  const fitting = MINUTE_STEPS.find((minutes) => times.length / minutes <= count) ?? 60;
  return times.filter((at) => (at / MINUTE_MS) % fitting === 0);
}

/**
 * Returns how many of the minutes have all of their counts; the others are at the end. A line through the value so far of
 * a minute that has just begun would appear as an outage.
 *
 * @param times beginnings of the minutes, in order
 * @param readAt when the counts were read, by the clock of the minutes
 */
export function countComplete(times: readonly number[], readAt: number): number {
  const completeUntil = readAt - COUNTS_ARRIVE_WITHIN_MS - MINUTE_MS;
  const first = times.findIndex((at) => at > completeUntil);
  return first === -1 ? times.length : first;
}

/** A point of a line, in pixels. */
export interface Point {
  x: number;
  y: number;
}

/** Splits points into the runs that a line connects; undefined points interrupt it. */
export function splitRuns(points: readonly (Point | undefined)[]): Point[][] {
  const runs: Point[][] = [[]];
  for (const point of points) {
    if (point === undefined) runs.push([]);
    else runs.at(-1)?.push(point);
  }
  return runs.filter(({ length }) => length > 0);
}

/** Returns the path of a line through points. */
export function toPath(points: readonly Point[]): string {
  return points
    .map(({ x, y }, n) => `${n === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`)
    .join('');
}
