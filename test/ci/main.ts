// What CI runs, once .ci/run has installed the programs: the checks without tests, `npm test`, and what plan.ts adds.
//
//   node test/ci/main.ts [--elapsed SECONDS]
//
// CI_ALL=1 runs everything, however long it takes. The last line is `N passed, N failed`.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { readTiers } from '../support/jest/tiers.ts';
import { countCommits, listRecentChanges } from './changes.ts';
import { GATES, runGates } from './gates.ts';
import { makePlan, type Part } from './plan.ts';
import { type Result, runPart, runProgram, select, stopWithSignals } from './run-part.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Seconds from the start of .ci/run within which a run ends that is not told to run everything. */
const DEADLINE_SECONDS = 3_530;
/** Machines differ: a part is begun only if so many times what it took elsewhere is left. */
const SLOWEST_MACHINE = 1.3;

const { values } = parseArgs({ options: { elapsed: { type: 'string', default: '0' } } });
const isWhole = process.env.CI_ALL === '1';
const startedAt = performance.now() - Number(values.elapsed) * 1_000;
const ran: string[] = [];
const leftOut: string[] = [];
const results: Result[] = [];

let isInterrupted = false;

stopWithSignals(() => {
  isInterrupted = true;
});
await runAllGates();
await runTests();
report();

function secondsLeft(): number {
  const elapsed = (performance.now() - startedAt) / 1_000;
  return isWhole ? Number.POSITIVE_INFINITY : DEADLINE_SECONDS - elapsed;
}

async function runAllGates(): Promise<void> {
  const names = Object.keys(GATES);
  const failures = await runGates(ROOT, names);
  const failed = failures.length;
  results.push({ passed: names.length - failed, failed, failures, flaky: [], leftOut: [] });
  ran.push(...names);
}

async function runTests(): Promise<void> {
  const plan = makePlan({
    tiers: readTiers(ROOT),
    secondsOf: readSeconds(),
    changes: isWhole ? undefined : listRecentChanges(ROOT),
    commits: countCommits(ROOT),
  });
  if (!isInterrupted) await run(plan.daily, []);
  const done = new Set(plan.daily.files);
  for (const { title, files, seconds } of plan.parts) {
    const left = files.filter((path) => !done.has(path));
    const hasTime = secondsLeft() >= seconds * SLOWEST_MACHINE;
    if (isInterrupted || !hasTime) {
      leftOut.push(`${title} (${isInterrupted ? 'interrupted' : 'no time'})`);
      continue;
    }
    if (left.length > 0) await run({ title, files: left }, select(left));
    for (const path of left) done.add(path);
  }
  leftOut.push(...plan.leftOut);
}

async function run(part: Pick<Part, 'title' | 'files'>, args: readonly string[]): Promise<void> {
  results.push(await runPart(part, args, npmTest));
  ran.push(part.title);
}

function npmTest(title: string, args: readonly string[]) {
  process.stdout.write(`\n== tests: ${title} ==\n`);
  const timeoutMs = Math.max(1, secondsLeft() * 1_000);
  return runProgram(['npm', 'test', '--', ...args], { root: ROOT, timeoutMs, isShown: true });
}

function readSeconds(): Record<string, number> {
  return JSON.parse(readFileSync(`${ROOT}test/support/jest/seconds.json`, 'utf8'));
}

function report(): void {
  const sum = (key: 'passed' | 'failed') => results.reduce((total, one) => total + one[key], 0);
  const list = (key: 'leftOut' | 'flaky' | 'failures') => results.flatMap((one) => one[key]);
  const lines = [
    ['ran', ran],
    ['left out', leftOut],
    ['left out, for this machine can’t run them', list('leftOut')],
    ['passed only in a second run', list('flaky')],
    ['failed', list('failures')],
  ] as const;
  process.stdout.write('\n');
  for (const [title, entries] of lines) {
    if (entries.length > 0) process.stdout.write(`${title}: ${entries.join('; ')}\n`);
  }
  process.stdout.write(`\n${sum('passed')} passed, ${sum('failed')} failed\n`);
  process.exitCode = sum('failed') > 0 || isInterrupted ? 1 : 0;
}
