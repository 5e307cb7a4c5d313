// Downloads the vendor's mongod into a folder and prints its path. Runs on Node 24 once the
// dependencies are installed. Arguments: the folder and the base URL. Exit code 3: the download has
// an unexpected digest.

import { execFileSync } from 'node:child_process';
import { mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { DryMongoBinary } from 'mongodb-memory-server-core/lib/util/DryMongoBinary.js';
import urls from 'mongodb-memory-server-core/lib/util/MongoBinaryDownloadUrl.js';
import { findKnownArchive, MONGODB_VERSION } from './mongod-archives.mjs';
import {
  downloadVerified,
  fetchPublishedDigest,
  UntrustedDownloadError,
} from './verified-download.mjs';

const EXIT_UNTRUSTED = 3;

async function main([folder, vendor]) {
  const { platform, arch } = process;
  const glibc = process.report.getReport().header.glibcVersionRuntime;
  const knownBuild = findKnownArchive({ platform, arch, glibc });
  const url = knownBuild ? `${vendor}/${knownBuild.path}` : await findUrlForOlderSystem(vendor);
  const archive = join(folder, 'mongod.tgz');
  const digest = knownBuild?.sha256 ?? (await fetchPublishedDigest(url));
  await downloadVerified(url, digest, archive, printProgress);
  return unpack(archive, folder);
}

/** Prints a line for the bootstrap. @param total undefined if the server does not tell it */
function printProgress(bytes, total) {
  const of = total === undefined ? '' : ` of ${toMegabytes(total)}`;
  const share = total === undefined ? '' : ` (${Math.round((bytes / total) * 100)} %)`;
  process.stderr.write(`progress: ${toMegabytes(bytes)}${of} MB${share}\n`);
}

function toMegabytes(bytes) {
  return Math.round(bytes / 1_000_000);
}

/** Finds the build for a system that is too old for the known one. */
async function findUrlForOlderSystem(vendor) {
  const options = await DryMongoBinary.generateOptions({ version: MONGODB_VERSION });
  const url = new URL(await new urls.MongoBinaryDownloadUrl(options).getDownloadUrl());
  return `${vendor}${url.pathname}`;
}

function unpack(archive, folder) {
  const unpacked = join(folder, 'unpacked');
  mkdirSync(unpacked);
  // The archive's top folder is named after the archive.
  execFileSync('tar', ['-xzf', archive, '-C', unpacked, '--strip-components=1']);
  const mongod = join(folder, 'mongod');
  renameSync(join(unpacked, 'bin/mongod'), mongod);
  return mongod;
}

try {
  process.stdout.write(`${await main(process.argv.slice(2))}\n`);
} catch (error) {
  process.stderr.write(`${error.cause?.message ?? error.message}\n`);
  process.exitCode = error instanceof UntrustedDownloadError ? EXIT_UNTRUSTED : 1;
}
