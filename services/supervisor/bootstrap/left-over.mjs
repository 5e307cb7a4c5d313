// What a supervisor that was killed leaves behind. Its services end by themselves when their
// channel to it closes; Redis and MongoDB don't notice, and keep their ports and files.

import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from './identity.mjs';

const SERVERS = ['redis', 'mongodb'];
const SERVICES_END_MS = 20_000;
const SERVERS_END_MS = 30_000;
const LOOK_AGAIN_MS = 100;

/** The file in a stack's folder that lists its processes as long as the stack runs. */
function processList(home) {
  return join(home, 'processes.json');
}

/**
 * The processes of an earlier run that still run, services first.
 *
 * @param {string} home
 * @returns {{ service: string, pid: number, started: string }[]}
 */
export function findLeftOver(home) {
  try {
    return JSON.parse(readFileSync(processList(home), 'utf8')).filter(isAlive);
  } catch {
    return [];
  }
}

/** Ends these processes, services before the servers that they write to. */
export async function endProcesses(processes) {
  const isServer = ({ service }) => SERVERS.includes(service);
  await end(
    processes.filter((one) => !isServer(one)),
    SERVICES_END_MS,
  );
  await end(processes.filter(isServer), SERVERS_END_MS);
}

async function end(processes, patienceMs) {
  signal(processes, 'SIGTERM');
  const begun = Date.now();
  while (processes.some(isAlive) && Date.now() - begun < patienceMs) await sleep(LOOK_AGAIN_MS);
  signal(processes, 'SIGKILL');
  while (processes.some(isAlive)) await sleep(LOOK_AGAIN_MS);
}

function signal(processes, name) {
  for (const one of processes.filter(isAlive)) {
    try {
      process.kill(one.pid, name);
    } catch {
      // It has ended between the look and the signal.
    }
  }
}

/** Removes what tells others that the stack of this folder runs. */
export function removeTraces(home) {
  for (const path of [processList(home), join(home, 'dev.json')]) rmSync(path, { force: true });
}
