// Says everything that `npm start` needs and can't install by itself, before it downloads anything.

import { canInstallPackages } from './debian.mjs';
import { findManager, listRemedies } from './install-commands.mjs';
import { hasMongod } from './mongod.mjs';
import { canReachVendor } from './mongod-vendor.mjs';
import { hasPip } from './mongod-wheel.mjs';
import { findProgram, isExecutable, NODE_24, PNPM } from './paths.mjs';
import { hasRedis } from './redis.mjs';
import { run } from './run.mjs';
import { UserError } from './terminal.mjs';

/** Where glibc's program stands, also for users who do not have it on their PATH. */
const LDCONFIG = '/sbin/ldconfig';

/**
 * Checks that what is missing on this machine can be installed.
 *
 * @param {{ redisUrl?: string, mongodbUri?: string }} settings
 * @throws {UserError} with a line for each part that can't
 */
export async function checkMissingPrograms(settings) {
  const { platform, arch } = process;
  const manager = findManager();
  const hasTools = isExecutable(NODE_24) && isExecutable(PNPM.program);
  const hasGlibc = hasTools || process.report.getReport().header.glibcVersionRuntime !== undefined;
  const missing = [];
  if (!hasTools && findProgram('npm') === undefined) missing.push('npm');
  const needsRedis = settings.redisUrl === undefined && !hasRedis();
  if (needsRedis && !canInstallPackages()) missing.push('redis');
  if (settings.mongodbUri === undefined) missing.push(...(await findMissingForMongodb()));
  const remedies = listRemedies({ platform, arch, hasGlibc, manager, missing });
  if (remedies.length === 0) return;
  const list = remedies.map((line) => `  ${line}`).join('\n');
  throw new UserError(
    `This machine lacks something. Install it and run the command again:\n${list}`,
  );
}

async function findMissingForMongodb() {
  if (canInstallPackages() || (await hasMongod())) return [];
  const missing = [];
  if (process.platform === 'linux' && !(await hasLibcurl())) missing.push('libcurl');
  const fromVendor = findProgram('tar') !== undefined && (await canReachVendor());
  if (!fromVendor && !(await hasPip())) missing.push('mongodb');
  return missing;
}

/** Checks for the library that mongod is linked with; true where this can't be found out. */
async function hasLibcurl() {
  if (!isExecutable(LDCONFIG)) return true;
  const script = `case "$(${LDCONFIG} -p)" in *libcurl.so.4*) ;; *) exit 1 ;; esac`;
  return (await run('/bin/sh', ['-c', script])).ok;
}
