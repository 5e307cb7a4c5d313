import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Row } from '../table.ts';
import type { Machine } from './machine.ts';
import type { ResourceUsage } from './resource-usage.ts';

/** What a benchmark has measured. */
export interface Measured {
  rows: Row[];
  uses: ResourceUsage[];
}

/** The rows of each benchmark, by its name. */
export interface Results {
  machine: Machine;
  parts: Record<string, Row[]>;
}

const FILE = fileURLToPath(new URL('../results.json', import.meta.url));

/** Reads the results that docs/performance.md shows. */
export async function readResults(): Promise<Results> {
  return JSON.parse(await readFile(FILE, 'utf8')) as Results;
}

/** Writes the results that docs/performance.md shows. */
export async function writeResults(results: Results): Promise<void> {
  await writeFile(FILE, `${JSON.stringify(results, roundNumbers, 2)}\n`);
}

function roundNumbers(_key: string, value: unknown): unknown {
  return typeof value === 'number' ? Number(value.toPrecision(4)) : value;
}
