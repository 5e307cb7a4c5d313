import type { StackCosts } from '../support/stack-costs.ts';
import { percentile } from '../support/statistics.ts';
import type { Hottest } from './hottest.ts';

const NAME_WIDTH = 32;
/** A part with a smaller share of the busy time is not printed. */
const MIN_SHARE = 0.005;

/** Prints the first functions as a table, below a line of totals and one of parts. */
export function printHottest(
  service: string,
  { durationMs, busyMs, functions, parts }: Hottest,
  count: number,
): void {
  const seconds = (durationMs / 1_000).toFixed(1);
  const busy = percent(busyMs / durationMs);
  const rows = functions.slice(0, count).map(({ name, where, selfMs }) => {
    const cells = [selfMs.toFixed(0).padStart(8), percent(selfMs / busyMs).padStart(7)];
    return `${cells.join('')}  ${name.slice(0, NAME_WIDTH).padEnd(NAME_WIDTH)}  ${where}`;
  });
  const head = `${'self ms'.padStart(8)}${'busy'.padStart(7)}  ${'function'.padEnd(NAME_WIDTH)}  where`;
  const shares = parts
    .filter(({ selfMs }) => selfMs / busyMs >= MIN_SHARE)
    .map(({ name, selfMs }) => `${name} ${percent(selfMs / busyMs)}`);
  const summary = `${service}: busy for ${busy} of ${seconds} s`;
  const lines = [summary, `by part: ${shares.join(', ')}`, head, ...rows];
  process.stdout.write(`${lines.map((line) => line.trimEnd()).join('\n')}\n`);
}

/** Prints how many pushes arrived, and their latency: a stack that does not keep up shows a profile of its queues. */
export function printLatencies(latenciesMs: readonly number[], seconds: number): void {
  const rate = (latenciesMs.length / seconds).toFixed(0);
  const [p50, p99] = [0.5, 0.99].map((share) => percentile(latenciesMs, share).toFixed(1));
  process.stdout.write(`${rate} pushes a second, p50 ${p50} ms, p99 ${p99} ms\n`);
}

/** Prints the CPU of each service, all its processes together, as a share of a core. */
export function printCpu({ seconds, cpuSeconds }: StackCosts): void {
  const shares = Object.entries(cpuSeconds)
    .sort(([, a], [, b]) => b - a)
    .map(([service, used]) => `${service} ${percent(used / seconds)}`);
  process.stdout.write(`CPU of a core: ${shares.join(', ')}\n`);
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
