// Which Redis server this machine has, or can have.

import { canInstallPackages, installPackages } from './debian.mjs';
import { findProgram } from './places.mjs';
import { run } from './run.mjs';
import { Refusal } from './say.mjs';

const NAMES = ['redis-server', 'valkey-server'];

/**
 * The path of a Redis or Valkey server that runs here.
 *
 * @returns {Promise<{ path: string, version: string }>}
 * @throws {Refusal} when there is none and none can be installed
 */
export async function findRedis() {
  const named = process.env.CARILLON_REDIS_SERVER;
  if (named) return checked(named, 'CARILLON_REDIS_SERVER');
  if (findProgram(...NAMES) === undefined && canInstallPackages()) {
    await installPackages('redis-server');
  }
  const path = findProgram(...NAMES);
  if (path === undefined) {
    throw new Refusal(
      `Redis is not installed. Install it (${installCommand()}), or name a running one: REDIS_URL=redis://host:6379 npm start.`,
    );
  }
  return checked(path, 'PATH');
}

async function checked(path, source) {
  const { ok, stdout } = await run(path, ['--version']);
  const version = /v=([\d.]+)/.exec(stdout)?.[1];
  if (!ok || version === undefined) {
    throw new Refusal(`${path} (from ${source}) is not a Redis server that runs on this machine.`);
  }
  return { path, version };
}

function installCommand() {
  if (process.platform === 'darwin') return 'brew install redis';
  if (findProgram('apt-get')) return 'sudo apt-get install redis-server';
  if (findProgram('dnf')) return 'sudo dnf install valkey';
  if (findProgram('apk')) return 'sudo apk add redis';
  return 'from the package manager of this system';
}
