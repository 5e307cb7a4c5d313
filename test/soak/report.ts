import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { check } from './checker.ts';
import { countDuplicates, countRepeats } from './duplicates.ts';
import type { History } from './history.ts';
import { findRecoveries, summarizeRecoveries, summarizeSchedule } from './recovery.ts';

const HISTORY_FILE = /\.history\.json$/;
const SHOWN_VIOLATIONS = 50;
const BYTES_PER_MEGABYTE = 1_048_576;

/** A finished run. */
interface FinishedRun {
  /** Path of its files, without what tells them apart. */
  base: string;
  history: History;
}

/** Writes the history of a run to a file. */
export function saveHistory(base: string, history: History): void {
  writeFileSync(`${base}.history.json`, JSON.stringify(history));
}

/**
 * Reads a run from its history file.
 *
 * @throws when the file is not named as a history
 */
export function readRun(historyPath: string): FinishedRun {
  if (!HISTORY_FILE.test(historyPath)) throw new Error(`${historyPath} is no .history.json`);
  const base = historyPath.replace(HISTORY_FILE, '');
  return { base, history: JSON.parse(readFileSync(historyPath, 'utf8')) as History };
}

/** Checks a run, writes its report to a file and prints it. Returns the number of violations. */
export function printReport({ base, history }: FinishedRun): number {
  const { violations, ...figures } = summarize({ base, history });
  const path = `${base}.report.json`;
  const written = { ...figures, faults: history.faults, violations };
  writeFileSync(path, `${JSON.stringify(written, null, 2)}\n`);
  process.stdout.write(`${JSON.stringify(figures, null, 2)}\n`);
  for (const { invariant, detail } of violations.slice(0, SHOWN_VIOLATIONS))
    process.stdout.write(`VIOLATION ${invariant}: ${detail}\n`);
  process.stdout.write(`${violations.length} violations; ${path}\n`);
  return violations.length;
}

function summarize({ base, history }: FinishedRun) {
  const violations = check(history);
  const tries = history.pushes.flatMap((push) => push.tries);
  const accepted = history.pushes.filter((push) => push.tries.some(({ end }) => end === 'ok'));
  return {
    run: basename(base),
    seed: history.seed,
    minutes: Math.round(measureLoadMs(history) / 60_000),
    pushes: history.pushes.length,
    accepted: accepted.length,
    unknownTries: tries.filter(({ end }) => end === 'unknown').length,
    unknownPushes: countUnknown(history),
    recipients: accepted.reduce((sum, { audience }) => sum + audience.length, 0),
    ends: sumEnds(history),
    gone: countGone(history),
    lost: violations.filter(({ invariant }) => invariant === 'nothing is lost').length,
    duplicates: countDuplicates(history),
    duplicatesWithoutBreak: countRepeats(history),
    observerLagMs: Math.max(0, ...Object.values(history.observerLags)),
    left: history.left,
    recovery: summarizeRecoveries(findRecoveries(history, history.faults)),
    schedule: summarizeSchedule(history, history.faults),
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

/** Counts the devices that became gone, by channel, and the pushes to them that their providers have refused. */
function countGone({ gone, refusals }: History) {
  const devices = Map.groupBy(gone, ({ channel }) => channel);
  return {
    devices: Object.fromEntries([...devices].map(([channel, all]) => [channel, all.length])),
    refusedByProvider: refusals.length,
  };
}

/** Measures the time from the first request to send to the last push's first. */
function measureLoadMs({ pushes }: History): number {
  const startedAt = pushes.flatMap(({ tries }) => tries[0]?.startedAtMs ?? []);
  return (startedAt.at(-1) ?? 0) - (startedAt[0] ?? 0);
}

function sumEnds({ ends }: History): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { counts } of Object.values(ends))
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
  return sums;
}
