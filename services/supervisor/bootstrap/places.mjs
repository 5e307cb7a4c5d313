// Where things lie: the checkout, the per-user cache, and programs on PATH.

import { accessSync, constants } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root folder of the checkout. */
export const ROOT = fileURLToPath(new URL('../../../', import.meta.url)).replace(/\/$/, '');

/** Node 24, as the installed dependencies bring it. */
export const NODE_24 = join(ROOT, 'node_modules/node/bin/node');

/** The folder of downloads shared by all checkouts of this user. */
export const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'carillon');

/**
 * Where Node keeps what it has compiled: nearly half of a process's start, and a stack has a dozen. It holds
 * one entry for each file of each checkout, checked against the file.
 */
export const COMPILED = { NODE_COMPILE_CACHE: join(CACHE, 'compiled') };

/** The path of the first of these programs that is on PATH, or undefined. */
export function findProgram(...names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      const path = join(folder, name);
      if (folder !== '' && isExecutable(path)) return path;
    }
  }
  return undefined;
}

/** Can this file be run? */
export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
