import type { History } from './history.ts';
import type { Plan } from './plan.ts';
import type { System } from './system.ts';

/** Memory is compared in runs that are long enough for it to stop growing. */
const MEMORY_RUN_MS = 10 * 60_000;
const SAMPLE_EVERY_MS = 10_000;
/** Parts of a run between which memory is compared: after the first growth, and at the end. */
const EARLY = { from: 1 / 6, to: 1 / 2 };
const LATE = { from: 5 / 6, to: 1 };

/** Resident memory of the processes of a service at a moment of the run. */
export interface MemorySample {
  atMs: number;
  service: string;
  bytes: number;
}

/** Starts reading the memory of the processes; returns a function that stops and compares. */
export function watchMemory(
  system: Pick<System, 'readMemory'>,
  { pushes }: Pick<Plan, 'pushes'>,
): () => History['memory'] {
  const lengthMs = pushes.at(-1)?.atMs ?? 0;
  if (lengthMs < MEMORY_RUN_MS) return () => [];
  const samples: MemorySample[] = [];
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const atMs = performance.now() - startedAt;
    for (const one of system.readMemory()) samples.push({ atMs, ...one });
  }, SAMPLE_EVERY_MS);
  return () => {
    clearInterval(timer);
    return compareMemory(samples, lengthMs);
  };
}

/**
 * Compares the memory of each service in an early and in the last part of a run: the median of its largest process. Faults end
 * processes, and a process is smaller the younger it is, so the others tell more of the faults than of the memory.
 */
export function compareMemory(
  samples: readonly MemorySample[],
  lengthMs: number,
): History['memory'] {
  const services = Map.groupBy(samples, ({ service }) => service);
  return [...services].flatMap(([service, ofService]) => {
    const largest = [...Map.groupBy(ofService, ({ atMs }) => atMs)].map(([atMs, atOnce]) => ({
      atMs,
      bytes: Math.max(...atOnce.map(({ bytes }) => bytes)),
    }));
    const medianOf = ({ from, to }: typeof EARLY) =>
      findMedian(
        largest
          .filter(({ atMs }) => atMs >= from * lengthMs && atMs <= to * lengthMs)
          .map(({ bytes }) => bytes),
      );
    const [before, after] = [medianOf(EARLY), medianOf(LATE)];
    return before === undefined || after === undefined ? [] : [{ service, before, after }];
  });
}

function findMedian(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
