import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Compared, Row } from './table.ts';

/** A kept value, and the lowest and highest of its rounds. */
interface KeptRow extends Compared {
  /** The goal of the row determines which direction is worse. */
  worse: 'higher' | 'lower';
}

const FILE = fileURLToPath(new URL('kept-results.json', import.meta.url));
/**
 * Ratios to a floor of the same run, counts, and what the stack uses at rest. Times depend on the machine: a row of them is
 * compared if it has a floor.
 */
const COMPARED_UNITS: readonly (string | undefined)[] = ['×', 'commands', '% of a core', 'MB'];

/** Keeps the comparable values of a run, which later runs are compared with. Rows of other parts are kept unchanged. */
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
  return rows.flatMap((row) => {
    const before = kept[row.what];
    if (before === undefined) return [];
    const value = row.compared?.value ?? row.value;
    const allowed = before.max - before.min;
    const excess = before.worse === 'higher' ? value - before.value : before.value - value;
    if (excess <= allowed) return [];
    return [`${row.what}: ${round(value)}, kept ${round(before.value)} ± ${round(allowed)}`];
  });
}

function toEntry(row: Row): [string, KeptRow][] {
  const compared = comparedOf(row);
  if (compared === undefined) return [];
  const { value, min, max } = compared;
  const worse = row.goal !== undefined && 'atLeast' in row.goal ? 'lower' : 'higher';
  return [[row.what, { value: round(value), min: round(min), max: round(max), worse }]];
}

function comparedOf({ value, unit, spread, compared }: Row): Compared | undefined {
  if (compared !== undefined) return compared;
  return spread && COMPARED_UNITS.includes(unit) ? { value, ...spread } : undefined;
}

function readKept(file: string): Record<string, KeptRow> {
  return JSON.parse(readFileSync(file, 'utf8')) as Record<string, KeptRow>;
}

function round(value: number): number {
  return Math.round(value * 1_000) / 1_000;
}
