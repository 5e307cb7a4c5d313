// Runs the tests of the faults in plan.ts, one after the other, and prints which fault each has passed:
//
//   npm run faults
//   npm run faults -- 5 24      only the faults of these numbers
//   npm run faults -- --table   runs nothing: prints the table of the plan in docs/guarantees.md

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { startProcess } from '../support/child-process.ts';
import { formatFaultTable } from '../support/faults/fault-table.ts';
import { FAULT_PLAN } from './plan.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Length of a run of random faults. */
const SOAK_ARGS = ['--minutes', '3'];
const FAILED_LINES = 60;

interface Result {
  end: 'passed' | 'failed' | 'left out';
  seconds: number;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { table: { type: 'boolean', default: false } },
});
const chosen = FAULT_PLAN.map((planned, index) => ({ ...planned, number: index + 1 })).filter(
  ({ number }) => positionals.length === 0 || positionals.includes(String(number)),
);
const results = new Map<string, Result>();
if (values.table) process.stdout.write(`${formatFaultTable(ROOT).join('\n')}\n`);
else await runChosen();

async function runChosen(): Promise<void> {
  for (const file of new Set(chosen.flatMap(({ files }) => files))) {
    const result = await run(file);
    results.set(file, result);
    process.stderr.write(`${file}: ${result.end} after ${result.seconds} s\n`);
  }
  printTable();
  const hasFailed = [...results.values()].some(({ end }) => end === 'failed');
  process.exitCode = hasFailed || chosen.length === 0 ? 1 : 0;
}

/** Runs a test file, or a program. What a failed one has printed last is shown. */
async function run(file: string): Promise<Result> {
  const startedAt = performance.now();
  const args = file.endsWith('.test.ts')
    ? [join(ROOT, 'tools/supervisor/bootstrap.mjs'), 'test', file]
    : [join(ROOT, file), ...SOAK_ARGS];
  const child = startProcess(process.execPath, args, { cwd: ROOT });
  const code = await child.exited;
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  if (code === 0) return { end: 'passed', seconds };
  if (isLeftOut(file, child.output())) return { end: 'left out', seconds };
  process.stderr.write(`${child.output().split('\n').slice(-FAILED_LINES).join('\n')}\n`);
  return { end: 'failed', seconds };
}

/** Checks whether the run has reported that the machine can't run the file. */
function isLeftOut(file: string, output: string): boolean {
  const lists = [...output.matchAll(/^Left out: (.+) \(/gm)].map(([, names = '']) => names);
  return lists.flatMap((names) => names.split(', ')).some((name) => file.includes(`/${name}`));
}

/** Prints a row for each fault and file: number, fault, file, result, seconds. */
function printTable(): void {
  const rows = chosen.flatMap(({ number, fault, files }) =>
    files.map((file) => {
      const result = results.get(file);
      return [number, fault, file, result?.end ?? '', result?.seconds ?? ''];
    }),
  );
  for (const row of [['#', 'fault', 'test', 'result', 'seconds'], ...rows])
    process.stdout.write(`| ${row.join(' | ')} |\n`);
}
