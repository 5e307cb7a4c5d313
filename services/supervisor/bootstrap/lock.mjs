// Locks between processes: a file that names its holder. A holder that died leaves a file that
// anyone may take away.

import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, startOf } from './identity.mjs';
import { checkStopped } from './run.mjs';
import { say } from './say.mjs';

const LOOK_AGAIN_MS = 200;

/**
 * The living process that holds a lock, or undefined.
 *
 * @param {string} path
 * @returns {{ pid: number, started: string } | undefined}
 */
export function lockHolder(path) {
  const holder = readHolder(path);
  return holder !== undefined && isAlive(holder) ? holder : undefined;
}

function readHolder(path) {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * Tries to take a lock for this process.
 *
 * @param {string} path a file in a folder that exists
 * @returns {(() => void) | undefined} the release, or undefined when another process holds it
 */
export function takeLock(path) {
  const mine = `${path}.${process.pid}`;
  writeFileSync(mine, JSON.stringify({ pid: process.pid, started: startOf(process.pid) }));
  try {
    // A link appears with its content or not at all: nobody ever reads half a lock.
    if (!link(mine, path)) {
      if (lockHolder(path) !== undefined) return undefined;
      removeStale(path);
      if (!link(mine, path)) return undefined;
    }
  } finally {
    rmSync(mine, { force: true });
  }
  return () => {
    if (readHolder(path)?.pid === process.pid) rmSync(path, { force: true });
  };
}

function link(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

// Two processes may see the same dead lock. It is moved aside first and looked at there, so that
// the slower of the two puts back a lock which the faster one has taken meanwhile.
function removeStale(path) {
  const aside = `${path}.stale-${process.pid}`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (lockHolder(aside) !== undefined) link(aside, path);
  rmSync(aside, { force: true });
}

/**
 * Runs `work` while holding a lock, waiting for it as long as it takes.
 *
 * @template T
 * @param {string} path
 * @param {string} what what the other process is busy with, for the line that tells of the wait
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withLock(path, what, work) {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let release = takeLock(path);
  if (release === undefined) say(`Waiting for another Carillon process that ${what} …`);
  while (release === undefined) {
    await sleep(LOOK_AGAIN_MS);
    checkStopped();
    release = takeLock(path);
  }
  try {
    return await work();
  } finally {
    release();
  }
}
