// Ends what a run of the tests leaves behind: stacks, servers, browsers and containers of a run that was interrupted or
// that failed. A process belongs to the run if it descends from this one, or if its environment names the run. Others may
// read a file of the run, so a command line that names it counts only where the environment tells nothing.

import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { readStartTime } from './process-identity.mjs';

/** Where tests keep data while there is room; see test/support/data-folder.ts. */
const IN_MEMORY = '/dev/shm';
/** Milliseconds after which a process that has got SIGTERM gets SIGKILL. */
const STOP_MS = 6_000;
/** Milliseconds for the processes of a run that has ended by itself: the last of them are about to end too. */
const END_MS = 2_000;
/** Milliseconds in which the system ends a process after SIGKILL. */
const KILL_MS = 3_000;
const POLL_INTERVAL_MS = 100;

/**
 * Begins a run: makes its folder for temporary files.
 *
 * @returns {{
 *   env: Record<string, string>, stop(): Promise<void>, end(hasFailed: boolean): Promise<string[]>
 * }} `env`: for the process that runs the tests; `stop` ends the run at once, and removes its files; `end`, once that process
 *   has ended by itself, ends those that it has left and returns their command lines: files of a failed run stay
 */
export function beginTestRun() {
  const name = `carillon-${randomBytes(4).toString('hex')}`;
  const folder = join(tmpdir(), name);
  mkdirSync(folder);
  const known = new Map();
  const find = () => findProcesses(name, known);
  const removeAll = () => {
    for (const path of findFolders(name, folder)) removeFolder(path);
  };
  return {
    env: { TMPDIR: folder, CARILLON_TEST_RUN: name },
    async stop() {
      await stopAll(find);
      removeAll();
    },
    async end(hasFailed) {
      await untilNone(find, END_MS);
      const left = find().map(({ command }) => command);
      if (left.length > 0) await stopAll(find);
      if (hasFailed) removeIfEmpty(folder);
      else removeAll();
      return left;
    },
  };
}

/** Sends SIGTERM to those that run now, so that each may end its own children, and SIGKILL to all that are left. */
async function stopAll(find) {
  signalAll(find(), 'SIGTERM');
  await untilNone(find, STOP_MS);
  const deadline = performance.now() + KILL_MS;
  for (let left = find(); left.length > 0 && performance.now() < deadline; left = find()) {
    signalAll(left, 'SIGKILL');
    await sleep(POLL_INTERVAL_MS);
  }
}

async function untilNone(find, timeoutMs) {
  const deadline = performance.now() + timeoutMs;
  while (find().length > 0 && performance.now() < deadline) await sleep(POLL_INTERVAL_MS);
}

function signalAll(processes, signal) {
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended.
    }
  }
}

/**
 * Finds the processes of a run, parents first.
 *
 * @param {string} name
 * @param {Map<number, string>} known start times of those that were found before, by pid: a child of theirs that has lost
 *   its parent belongs to the run too
 */
function findProcesses(name, known) {
  const all = listProcesses().filter(({ pid }) => pid !== process.pid);
  const found = new Map();
  const add = (one) => {
    const started = readStartTime(one.pid);
    if (started === undefined || found.has(one.pid)) return;
    known.set(one.pid, started);
    found.set(one.pid, one);
    for (const child of all.filter(({ parent }) => parent === one.pid)) add(child);
  };
  for (const one of all.filter(({ parent }) => parent === process.pid)) add(one);
  for (const one of all) {
    const isKnown = known.has(one.pid) && known.get(one.pid) === readStartTime(one.pid);
    if (isKnown || one.text.includes(name)) add(one);
  }
  return [...found.values()];
}

/** Lists all processes. `text` is what may name a run. */
function listProcesses() {
  return process.platform === 'linux' ? listFromProc() : listFromPs();
}

function listFromProc() {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
        const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
        return [{ pid: Number(pid), parent, command, text: readMark(pid) || command }];
      } catch {
        // It has ended.
        return [];
      }
    });
}

/**
 * Reads what may name the run: of servers that get an environment of their own, where their files are. Empty where nothing
 * is known.
 */
function readMark(pid) {
  try {
    const program = readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
    if (/^(redis|valkey)-server$/.test(program)) return readlinkSync(`/proc/${pid}/cwd`);
    if (program === 'mongod') return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    return readFileSync(`/proc/${pid}/environ`, 'utf8');
  } catch {
    return '';
  }
}

function listFromPs() {
  const lines = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,ppid=,command='], {
    encoding: 'utf8',
  });
  return lines.split('\n').flatMap((line) => {
    const [, pid, parent, command] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    return pid === undefined
      ? []
      : [{ pid: Number(pid), parent: Number(parent), command, text: command }];
  });
}

function findFolders(name, folder) {
  try {
    const names = readdirSync(IN_MEMORY).filter((one) => one.startsWith(name));
    return [folder, ...names.map((one) => join(IN_MEMORY, one))];
  } catch {
    return [folder];
  }
}

function removeFolder(path) {
  try {
    unmountBelow(path);
    rmSync(path, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    process.stderr.write(`${path} could not be removed: ${error.message}\n`);
  }
}

function removeIfEmpty(folder) {
  try {
    rmdirSync(folder);
  } catch {
    // It holds what a failed test has kept for inspection.
  }
}

/** Unmounts what is mounted below a folder, such as a container's files, the innermost first. */
function unmountBelow(folder) {
  if (process.platform !== 'linux') return;
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[4] ?? '');
  const below = mounts.filter((path) => path.startsWith(`${folder}/`));
  for (const path of below.reverse()) spawnSync('umount', ['--lazy', path], { stdio: 'ignore' });
}
