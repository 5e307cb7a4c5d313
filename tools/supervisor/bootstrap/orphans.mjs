// Finds and stops orphans: the processes that a killed supervisor leaves running. Its services exit
// when their IPC channel closes; Redis and MongoDB keep running and keep their ports and files.

import { readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, readStartTime } from './process-identity.mjs';
import { throwIfInterrupted } from './run.mjs';
import { UserError } from './terminal.mjs';

const SERVERS = ['redis', 'mongodb'];
const SERVICE_STOP_TIMEOUT_MS = 20_000;
const SERVER_STOP_TIMEOUT_MS = 30_000;
const KILL_TIMEOUT_MS = 10_000;
const POLL_INTERVAL_MS = 100;

/** Builds the path of the file that lists the processes of a running stack. */
function processListPath(dataDir) {
  return join(dataDir, 'processes.json');
}

/**
 * Finds the processes of an earlier run that are still running.
 *
 * @param {string} dataDir
 * @returns {{ service: string, pid: number, started: string }[]}
 */
export function findOrphans(dataDir) {
  const listed = readProcessList(dataDir).filter(isAlive);
  const unlistedServers = findUnlistedServers(dataDir).filter(
    ({ pid }) => !listed.some((one) => one.pid === pid),
  );
  return [...listed, ...unlistedServers];
}

function readProcessList(dataDir) {
  try {
    return JSON.parse(readFileSync(processListPath(dataDir), 'utf8'));
  } catch {
    return [];
  }
}

/**
 * Finds MongoDB and Redis servers that use this data folder and are not in the process list: a
 * supervisor that is killed after it starts a server and before it writes the list leaves one.
 * Works on Linux only.
 */
function findUnlistedServers(dataDir) {
  const pids = listFolder('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    const service = identifyService(pid, dataDir);
    const started = service === undefined ? undefined : readStartTime(Number(pid));
    return started === undefined ? [] : [{ service, pid: Number(pid), started }];
  });
}

/** Recognizes a server by the arguments that the supervisor gives it, so no other program is stopped. */
function identifyService(pid, dataDir) {
  try {
    const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const isOurs = args.includes('--nounixsocket') && args.includes('--quiet');
    if (isOurs && isSameFolder(args[args.indexOf('--dbpath') + 1], join(dataDir, 'mongodb')))
      return 'mongodb';
    // Redis overwrites its arguments with a title, but its working folder is that of its files.
    const isRedis = /^(redis|valkey)-server$/m.test(readFileSync(`/proc/${pid}/comm`, 'utf8'));
    const isInDataDir = () =>
      readlinkSync(`/proc/${pid}/cwd`) === realpathSync(join(dataDir, 'redis'));
    return isRedis && isInDataDir() ? 'redis' : undefined;
  } catch {
    // The process has ended, or belongs to another user.
    return undefined;
  }
}

/** Compares the folders that two paths lead to: one may contain a symbolic link. */
function isSameFolder(one, other) {
  return realpathSync(one) === realpathSync(other);
}

function listFolder(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Stops these processes: first the services, then the servers that they write to. */
export async function stopProcesses(processes) {
  const isServer = ({ service }) => SERVERS.includes(service);
  await stopAll(
    processes.filter((one) => !isServer(one)),
    SERVICE_STOP_TIMEOUT_MS,
  );
  await stopAll(processes.filter(isServer), SERVER_STOP_TIMEOUT_MS);
}

async function stopAll(processes, timeoutMs) {
  signalAll(processes, 'SIGTERM');
  await waitForExit(processes, timeoutMs);
  signalAll(processes, 'SIGKILL');
  await waitForExit(processes, KILL_TIMEOUT_MS);
  const running = processes.filter(isAlive).map(({ service, pid }) => `${service} (${pid})`);
  if (running.length === 0) return;
  throw new UserError(
    `These processes of the last run do not end: ${running.join(', ')}. End them and start again.`,
  );
}

async function waitForExit(processes, timeoutMs) {
  const startedAt = Date.now();
  while (processes.some(isAlive) && Date.now() - startedAt < timeoutMs) {
    await sleep(POLL_INTERVAL_MS);
    throwIfInterrupted();
  }
}

function signalAll(processes, name) {
  for (const one of processes.filter(isAlive)) {
    try {
      process.kill(one.pid, name);
    } catch {
      // The process ended between the check and the signal.
    }
  }
}

/** Removes the files that say that a stack runs on this folder. */
export function removeStateFiles(dataDir) {
  for (const path of [processListPath(dataDir), join(dataDir, 'dev.json')])
    rmSync(path, { force: true });
}
