import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { takeLock } from '../bootstrap/lock.mjs';
import { Refusal } from './refusal.ts';

/** The folder of one stack. */
export interface Home {
  path: string;
  /** The path of something in it. */
  at(...names: string[]): string;
  /** Writes a file that is seen whole or not at all, readable by its owner only. */
  write(name: string, content: unknown): void;
  /** The same for text. */
  writeText(name: string, text: string): void;
  /** The log of a process, emptied at each start of the stack; the one before is kept as `.1`. */
  log(name: string): string;
  /** Gives the folder free for another supervisor. */
  unlock(): void;
}

/**
 * Makes the folder ready and takes it for this supervisor.
 * @throws {Refusal} when another supervisor has it, or something else is in the place of a folder
 */
export function openHome(path: string): Home {
  const at = (...names: string[]) => join(path, ...names);
  for (const folder of ['', 'logs', 'redis', 'mongodb', 'tls']) {
    openFolder(at(folder));
  }
  const unlock = takeLock(at('lock'));
  if (unlock === undefined) {
    throw new Refusal(`Another stack has just started on ${path}. Choose another CARILLON_HOME.`);
  }
  return {
    path,
    at,
    unlock,
    writeText: (name, text) => writeWhole(at(name), text),
    write: (name, content) => writeWhole(at(name), `${JSON.stringify(content, null, 2)}\n`),
    log: (name) => rotate(at('logs', `${name}.log`)),
  };
}

function openFolder(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Refusal(
      `The folder ${path} can't be made (${code}). Move away what is in its place, or choose another CARILLON_HOME.`,
    );
  }
}

function writeWhole(path: string, text: string): void {
  const half = `${path}.half`;
  writeFileSync(half, text, { mode: 0o600 });
  renameSync(half, path);
}

function rotate(path: string): string {
  if (existsSync(path)) renameSync(path, `${path}.1`);
  writeFileSync(path, '', { mode: 0o600 });
  return path;
}
