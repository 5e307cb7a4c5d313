import { existsSync, mkdirSync, renameSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomically } from '@carillon/runtime/write-atomically';
import { tryAcquireLock } from '../bootstrap/lock.mjs';
import { UserError } from '../bootstrap/terminal.mjs';

/** Minimum free space; with less no data server can run. */
const MIN_FREE_BYTES = 1_048_576;

/** The data folder of a stack, locked by this process. */
export type DataDir = ReturnType<typeof openDataDir>;

/**
 * Creates the data folder of a stack and locks it for this process.
 * @throws {UserError} when another supervisor holds the lock, or the folder can't be created
 */
export function openDataDir(path: string) {
  const resolvePath = (...names: string[]) => join(path, ...names);
  for (const folder of ['', 'logs', 'redis', 'mongodb', 'tls']) {
    ensureFolder(resolvePath(folder));
  }
  const releaseLock = reportWriteError(path, () => tryAcquireLock(resolvePath('lock')));
  if (releaseLock === undefined) {
    throw new UserError(`Another stack has just started on ${path}. Choose another CARILLON_HOME.`);
  }
  return {
    path,
    /** Builds the path of a file in the folder. */
    resolvePath,
    /** Releases the lock. */
    releaseLock,
    /** Writes a JSON file atomically, readable by its owner only. */
    writeJson: (name: string, content: unknown): void => {
      const text = `${JSON.stringify(content, null, 2)}\n`;
      reportWriteError(resolvePath(name), () => writeAtomically(resolvePath(name), text));
    },
    /** Creates an empty log for a process and renames the previous one to `.1`. @returns its path */
    openLog: (name: string) => rotateLog(resolvePath('logs', `${name}.log`)),
  };
}

function ensureFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC') throw createWriteError(path, error);
    throw new UserError(
      `The folder ${path} can't be created (${code}). Remove the file in its place, or choose another CARILLON_HOME.`,
    );
  }
}

function rotateLog(path: string): string {
  return reportWriteError(path, () => {
    if (existsSync(path)) renameSync(path, `${path}.1`);
    writeFileSync(path, '', { mode: 0o600 });
    return path;
  });
}

function reportWriteError<T>(path: string, write: () => T): T {
  try {
    return write();
  } catch (error) {
    throw createWriteError(path, error);
  }
}

/** Creates the error for a file that can't be written. */
export function createWriteError(path: string, error: unknown): UserError {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOSPC' || code === 'EDQUOT') return new UserError(diskFullHint(path));
  return new UserError(
    `${path} can't be written (${code}). Fix its owner and permissions, or choose another CARILLON_HOME.`,
  );
}

/** Formats the error text for a full disk. */
export function diskFullHint(path: string): string {
  return `The disk of ${path} is full. Free some space and start again.`;
}

/** Checks whether the disk of a folder is too full for a data server. */
export function isDiskFull(folder: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize < MIN_FREE_BYTES;
  } catch {
    return false;
  }
}
