import { constants } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { placeOf } from '../database.ts';
import type { Stack } from '../stack.ts';
import { type Finding, look } from './report.ts';

const OLDEST_NODE = 24;
const READY_MS = 2_000;

/** The Node that runs this command, which is the one that runs the services. */
export function lookAtNode(version: string): Promise<Finding> {
  return look('node', async () => {
    if (Number.parseInt(version, 10) >= OLDEST_NODE) return version;
    throw new Error(`${version}; it must be ${OLDEST_NODE} or newer`);
  });
}

/** The folder of a stack that `npm start` runs; a deployment has none. */
export async function lookAtFolder({ home, processes }: Stack): Promise<Finding[]> {
  if (processes.length === 0) return [];
  const folder = await look('data folder', async () => {
    await access(home, constants.R_OK | constants.W_OK | constants.X_OK);
    return `${home} can be written`;
  });
  return [folder];
}

/** What `npm start` says that it runs: the services are asked, of Redis and MongoDB the program is told. */
export function lookAtProcesses({ processes }: Stack): Promise<Finding[]> {
  return Promise.all(
    processes.map(({ service, index, pid, ops }) =>
      look(`process ${service}-${index}`, async () => {
        const what = ops === undefined ? await programOf(pid) : await readiness(ops);
        return `${what} (pid ${pid})`;
      }),
    ),
  );
}

/** The program of a process, where the system tells (Linux). */
async function programOf(pid: number): Promise<string> {
  const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => 'runs');
  // Redis writes its address behind its name.
  return words.replace(/\0.*/s, '').replace(/ \S+:\d+$/, '');
}

async function readiness(ops: string): Promise<string> {
  const response = await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(READY_MS) });
  if (response.ok) return 'ready';
  throw new Error(`not ready: ${placeOf(ops)} says HTTP ${response.status}`);
}
