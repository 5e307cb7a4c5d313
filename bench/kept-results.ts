import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Row } from './table.ts';

/** A kept value, and the lowest and highest of its rounds. */
interface KeptRow {
  value: number;
  min: number;
  max: number;
  /** The goal of the row tells which direction is worse. */
  worse: 'higher' | 'lower';
}

const FILE = fileURLToPath(new URL('kept-results.json', import.meta.url));
/** Milliseconds and bytes depend on the machine; ratios to a floor of the same run and counts do not. */
const COMPARED_UNITS: readonly (string | undefined)[] = ['×', 'commands'];

/** Keeps the ratios and counts of a run, which later runs are compared with. Rows of other parts stay. */
export function keepResults(rows: readonly Row[], file = FILE): void {
  const kept = {
    ...(existsSync(file) && readKept(file)),
    ...Object.fromEntries(rows.flatMap(toEntry)),
  };
  const sorted = Object.fromEntries(Object.entries(kept).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(file, `${JSON.stringify(sorted, null, 2)}\n`);
}

/**
 * Compares a run with the kept one.
 *
 * @returns a line for each row that is worse than the kept value by more than the spread of the kept rounds
 * @throws Error when no run was kept
 */
export function findRegressions(rows: readonly Row[], file = FILE): string[] {
  if (!existsSync(file))
    throw new Error('no results are kept: run the benchmark with --keep first');
  const kept = readKept(file);
  return rows.flatMap(({ what, value }) => {
    const before = kept[what];
    if (before === undefined) return [];
    const allowed = before.max - before.min;
    const excess = before.worse === 'higher' ? value - before.value : before.value - value;
    if (excess <= allowed) return [];
    return [`${what}: ${round(value)}, kept ${round(before.value)} ± ${round(allowed)}`];
  });
}

function toEntry({ what, value, unit, goal, spread }: Row): [string, KeptRow][] {
  if (spread === undefined || !COMPARED_UNITS.includes(unit)) return [];
  const worse = goal !== undefined && 'atLeast' in goal ? 'lower' : 'higher';
  return [[what, { value: round(value), min: round(spread.min), max: round(spread.max), worse }]];
}

function readKept(file: string): Record<string, KeptRow> {
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, KeptRow>;
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}
