// Locks between processes: a lock is a file that names its holder. The lock of a process that has
// ended is stale, and any process may remove it.

import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, readStartTime } from './process-identity.mjs';
import { throwIfInterrupted } from './run.mjs';
import { print } from './terminal.mjs';

const POLL_INTERVAL_MS = 200;

/**
 * Finds the running process that holds a lock.
 *
 * @param {string} path
 * @returns {{ pid: number, started: string } | undefined}
 */
export function findLockHolder(path) {
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
export function tryAcquireLock(path) {
  const ownPath = `${path}.${process.pid}`;
  writeFileSync(ownPath, JSON.stringify({ pid: process.pid, started: readStartTime(process.pid) }));
  try {
    // A hard link appears together with its content, so no process reads a partial lock.
    if (!tryLink(ownPath, path)) {
      if (findLockHolder(path) !== undefined) return undefined;
      removeStaleLock(path);
      if (!tryLink(ownPath, path)) return undefined;
    }
  } finally {
    rmSync(ownPath, { force: true });
  }
  return () => {
    if (readHolder(path)?.pid === process.pid) rmSync(path, { force: true });
  };
}

function tryLink(from, to) {
  try {
    linkSync(from, to);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

// Two processes may find the same stale lock. The lock is renamed first and checked again under
// its new name, so that the slower process restores a lock that the faster one has just acquired.
function removeStaleLock(path) {
  const stalePath = `${path}.stale-${process.pid}`;
  try {
    renameSync(path, stalePath);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (findLockHolder(stalePath) !== undefined) tryLink(stalePath, path);
  rmSync(stalePath, { force: true });
}

/**
 * Runs `action` while holding a lock. Waits for the lock without a time limit.
 *
 * @template T
 * @param {string} path
 * @param {string} activity what the holder does, for the message about the wait
 * @param {() => Promise<T>} action
 * @returns {Promise<T>}
 */
export async function withLock(path, activity, action) {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  let release = tryAcquireLock(path);
  if (release === undefined) print(`Waiting for another Carillon process that ${activity} …`);
  while (release === undefined) {
    await sleep(POLL_INTERVAL_MS);
    throwIfInterrupted();
    release = tryAcquireLock(path);
  }
  try {
    return await action();
  } finally {
    release();
  }
}
