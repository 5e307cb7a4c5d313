import type { Machine } from './machine.ts';
import type { Use } from './usage.ts';

/** One line of what the figures belong to. */
export function printMachine(machine: Machine | undefined): void {
  if (machine === undefined) return;
  const { cpu, cores, memoryGb, system, node, mongodb, redis, loadBefore } = machine;
  const where = `${cores} cores of ${cpu}, ${memoryGb} GB, ${system}`;
  const what = `Node ${node}, MongoDB ${mongodb}, Redis ${redis}`;
  process.stdout.write(`${where}; ${what}; load before: ${loadBefore.toFixed(2)}\n`);
}

/** What each process of the stack, and the bench itself, has taken during the rows above. */
export function printUses(uses: readonly Use[]): void {
  if (uses.length === 0) return;
  const texts = uses.map(
    ({ process, cpuSeconds, peakMb }) =>
      `${process} ${cpuSeconds.toFixed(1)} s ${Math.round(peakMb)} MB`,
  );
  process.stdout.write(`  CPU and peak memory: ${texts.join(', ')}\n`);
}
