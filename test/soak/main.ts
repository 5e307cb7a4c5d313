// Runs the system under load and faults that a seed decides, and checks every guarantee:
//
//   npm run soak -- --minutes 3 --seed 1
//
// or reads a finished run again, and writes its report anew:
//
//   npm run soak -- --report .carillon/soak/1-0123456789ab.history.json

import { createHash } from 'node:crypto';
import { createWriteStream, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { check } from './checker.ts';
import { countDuplicates, countRepeats } from './duplicates.ts';
import { findRecoveries, summarizeRecoveries } from './figures.ts';
import type { History } from './history.ts';
import { buildPlan, FAULTS, type FaultName } from './plan.ts';
import { DEVICE_SETTINGS, run } from './run.ts';
import { openSystem } from './system.ts';

const HISTORY_FILE = /\.history\.json$/;
const SHOWN_VIOLATIONS = 50;
const BYTES_PER_MEGABYTE = 1_048_576;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '3' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    rate: { type: 'string', default: '20' },
    faults: { type: 'string' },
    report: { type: 'string' },
    reports: {
      type: 'string',
      default: fileURLToPath(new URL('../../.carillon/soak', import.meta.url)),
    },
  },
});
const violations = values.report === undefined ? await soak() : reportAgain(values.report);
process.exitCode = violations === 0 ? 0 : 1;

/** Runs the plan of the seed; returns the number of violations. */
async function soak(): Promise<number> {
  const seed = Number(values.seed);
  const plan = buildPlan({
    ...{ seed, minutes: Number(values.minutes), pushesPerSecond: Number(values.rate) },
    ...DEVICE_SETTINGS,
    ...(values.faults !== undefined && { faults: parseFaults(values.faults) }),
  });
  const digest = createHash('sha256').update(JSON.stringify(plan)).digest('hex').slice(0, 12);
  process.stdout.write(`seed ${seed}, plan ${digest}: ${plan.pushes.length} pushes\n`);
  for (const { atMs, fault, index, durationMs } of plan.faults)
    process.stdout.write(`  ${atMs / 1_000} s: ${fault} ${index}, ${durationMs} ms\n`);

  mkdirSync(values.reports, { recursive: true });
  const base = join(values.reports, `${seed}-${digest}`);
  const logFile = createWriteStream(`${base}.log.jsonl`);
  const system = await openSystem();
  try {
    const history = await run(system, plan, (line) => {
      logFile.write(`${JSON.stringify(line)}\n`);
    });
    writeFileSync(`${base}.history.json`, JSON.stringify(history));
    return printReport(base, history);
  } finally {
    logFile.end();
    await system.close();
  }
}

function parseFaults(list: string): [FaultName, ...FaultName[]] {
  const names = list.split(',');
  const known = FAULTS.filter((name) => names.includes(name));
  const [first, ...others] = known;
  if (first === undefined || known.length !== names.length)
    throw new Error(`the faults are: ${FAULTS.join(', ')}`);
  return [first, ...others];
}

/** Reads a run from its history file, and reports it again. @throws when the file is not named as a history */
function reportAgain(path: string): number {
  if (!HISTORY_FILE.test(path)) throw new Error(`${path} is no .history.json`);
  const history = JSON.parse(readFileSync(path, 'utf8')) as History;
  return printReport(path.replace(HISTORY_FILE, ''), history);
}

/** Checks a run, writes its report to a file and prints it. Returns the number of violations. */
function printReport(base: string, history: History): number {
  const { violations, ...figures } = summarize(base, history);
  const path = `${base}.report.json`;
  const written = { ...figures, faults: history.faults, violations };
  writeFileSync(path, `${JSON.stringify(written, null, 2)}\n`);
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  for (const { invariant, detail } of violations.slice(0, SHOWN_VIOLATIONS))
    process.stdout.write(`VIOLATION ${invariant}: ${detail}\n`);
  process.stdout.write(`${violations.length} violations; ${path}\n`);
  return violations.length;
}

function summarize(base: string, history: History) {
  const violations = check(history);
  const tries = history.pushes.flatMap((push) => push.tries);
  const startedAtMs = history.pushes.flatMap((push) => push.tries[0]?.startedAtMs ?? []);
  const accepted = history.pushes.filter((push) => push.tries.some(({ end }) => end === 'ok'));
  return {
    run: basename(base),
    seed: history.seed,
    minutes: Math.round(((startedAtMs.at(-1) ?? 0) - (startedAtMs[0] ?? 0)) / 60_000),
    pushes: history.pushes.length,
    accepted: accepted.length,
    unknownTries: tries.filter(({ end }) => end === 'unknown').length,
    unknownPushes: countUnknown(history),
    recipients: accepted.reduce((sum, { audience }) => sum + audience.length, 0),
    ends: sumEnds(history),
    /** Devices that became gone, and the pushes to them that their providers have refused. */
    gone: { devices: history.gone.length, refusedByProvider: history.refusals.length },
    lost: violations.filter(({ invariant }) => invariant === 'nothing is lost').length,
    duplicates: countDuplicates(history),
    duplicatesWithoutBreak: countRepeats(history),
    observerLagMs: Math.max(0, ...Object.values(history.observerLags)),
    left: history.left,
    recovery: summarizeRecoveries(findRecoveries(history, history.faults)),
    memory: history.memory.map(({ service, before, after }) => ({
      service,
      beforeMb: Math.round(before / BYTES_PER_MEGABYTE),
      afterMb: Math.round(after / BYTES_PER_MEGABYTE),
    })),
    violations,
  };
}

/**
 * Counts the pushes whose last request failed so that their acceptance is unknown, those of them that were accepted by the
 * database, and those that arrived.
 */
function countUnknown({ pushes, arrivals }: History) {
  const unknown = pushes.filter(({ tries }) => tries.at(-1)?.end === 'unknown');
  const arrived = new Set(arrivals.map(({ mark }) => mark));
  return {
    pushes: unknown.length,
    stored: unknown.filter(({ stored = [] }) => stored.length > 0).length,
    arrived: unknown.filter(({ mark }) => arrived.has(mark)).length,
  };
}

function sumEnds({ ends }: History): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { counts } of Object.values(ends))
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  return sums;
}
