import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Row } from '../table.ts';
import type { Machine } from './machine.ts';
import type { ResourceUsage } from './resource-usage.ts';

/** Result of one benchmark. */
export interface Result {
  bench: string;
  seconds: number;
  rows: Row[];
  uses: ResourceUsage[];
}

const FOLDER = fileURLToPath(new URL('../results/', import.meta.url));

/** Writes a run as JSON, named by its time. @returns the path */
export async function writeResults(
  machine: Machine | undefined,
  results: readonly Result[],
): Promise<string> {
  await mkdir(FOLDER, { recursive: true });
  const at = new Date().toISOString();
  const path = `${FOLDER}${at.slice(0, 19).replaceAll(':', '-')}.json`;
  await writeFile(path, JSON.stringify({ at, machine, results }, null, 2));
  return path;
}
