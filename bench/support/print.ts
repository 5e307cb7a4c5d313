import type { Machine } from './machine.ts';
import type { ResourceUsage } from './resource-usage.ts';

/** Prints one line about the machine. */
export function printMachine(machine: Machine | undefined): void {
  if (machine === undefined) return;
  const { cpu, cores, memoryGb, system, node, mongodb, redis, loadBefore } = machine;
  const where = `${cores} cores of ${cpu}, ${memoryGb} GB, ${system}`;
  const what = `Node ${node}, MongoDB ${mongodb}, Redis ${redis}`;
  process.stdout.write(`${where}; ${what}; load before: ${loadBefore.toFixed(2)}\n`);
}

/** Prints the resource usage of each process of the stack and of the benchmark. */
export function printUses(uses: readonly ResourceUsage[]): void {
  if (uses.length === 0) return;
  const texts = uses.map(
    ({ process, cpuSeconds, peakMb }) =>
      `${process} ${cpuSeconds.toFixed(1)} s ${Math.round(peakMb)} MB`,
  );
  process.stdout.write(`  CPU and peak memory: ${texts.join(', ')}\n`);
}
