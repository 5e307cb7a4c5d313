// Finds or installs a Redis server.

import { canInstallPackages, installPackages } from './debian.mjs';
import { findManager, suggestCommand } from './install-commands.mjs';
import { findProgram } from './paths.mjs';
import { run } from './run.mjs';
import { UserError } from './terminal.mjs';

const PROGRAM_NAMES = ['redis-server', 'valkey-server'];

/**
 * Finds a Redis or Valkey server that runs on this machine; as root on Debian, installs one.
 *
 * @returns {Promise<{ path: string, version: string }>}
 * @throws {UserError} when none is found and none can be installed
 */
export async function findRedis() {
  const configuredPath = process.env.CARILLON_REDIS_SERVER;
  if (configuredPath) return checkRedis(configuredPath, 'CARILLON_REDIS_SERVER');
  if (findProgram(...PROGRAM_NAMES) === undefined && canInstallPackages()) {
    await installPackages('redis-server');
  }
  const path = findProgram(...PROGRAM_NAMES);
  if (path === undefined) {
    throw new UserError(
      `Redis is not installed. Install it (${suggestCommand('redis', findManager())}), or use a running server: REDIS_URL=redis://host:6379 npm start.`,
    );
  }
  return checkRedis(path, 'PATH');
}

/** Checks whether there is a program to check. */
export function hasRedis() {
  return Boolean(process.env.CARILLON_REDIS_SERVER) || findProgram(...PROGRAM_NAMES) !== undefined;
}

async function checkRedis(path, source) {
  const { ok, stdout } = await run(path, ['--version']);
  const version = /v=([\d.]+)/.exec(stdout)?.[1];
  if (!ok || version === undefined) {
    throw new UserError(
      `${path} (from ${source}) is not a Redis server that runs on this machine.`,
    );
  }
  return { path, version };
}
