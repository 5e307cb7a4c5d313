// Downloads MongoDB from its vendor, where the vendor's host can be reached.

import { lookup } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NODE_24, ROOT } from './paths.mjs';
import { lastLines, run } from './run.mjs';
import { print, runStep, UserError } from './terminal.mjs';

const VENDOR_URL = 'https://fastdl.mongodb.org';
const LOOKUP_TIMEOUT_MS = 3000;
const EXIT_UNTRUSTED = 3;
const DOWNLOADER = fileURLToPath(new URL('./download-mongod.mjs', import.meta.url));

/**
 * Downloads the vendor's build for this system, from the vendor or from the mirror that
 * CARILLON_MONGODB_MIRROR names.
 *
 * @param {string} folder an empty folder
 * @returns {Promise<string | undefined>} the path of mongod; undefined when the download failed
 * @throws {UserError} when the download does not have the published digest
 */
export async function downloadFromVendor(folder) {
  const baseUrl = readBaseUrl();
  const host = parseHost(baseUrl);
  if (!(await canReachVendor())) return undefined;
  const args = [DOWNLOADER, folder, baseUrl];
  const env = { NODE_USE_ENV_PROXY: '1' };
  const result = await runStep(`Downloading MongoDB from ${host}`, (report) =>
    run(NODE_24, args, { cwd: ROOT, env, onLine: (line) => reportBytes(line, report) }),
  );
  if (result.ok) return result.stdout.trim();
  if (result.code === EXIT_UNTRUSTED) {
    throw new UserError(
      `The MongoDB downloaded from ${host} does not have the expected digest and is not run: ${lastLines(result.output, 1).trim()} Put a mongod on PATH or set MONGODB_URI.`,
    );
  }
  print(
    `MongoDB could not be downloaded from ${host}:\n${lastLines(result.output.replaceAll(/^progress: .*$/gm, ''), 2)}`,
  );
  return undefined;
}

/** Reports a line of the downloader. */
function reportBytes(line, report) {
  const [, progress] = /^progress: (.+)$/.exec(line) ?? [];
  if (progress !== undefined) report(progress);
}

/** Checks whether the vendor's host has an address: a failed DNS lookup is faster than a failed connection. */
export function canReachVendor() {
  return isResolvable(parseHost(readBaseUrl()));
}

function readBaseUrl() {
  return (process.env.CARILLON_MONGODB_MIRROR || VENDOR_URL).replace(/\/+$/, '');
}

function parseHost(url) {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, '');
  } catch {
    throw new UserError(
      'CARILLON_MONGODB_MIRROR must be a URL like https://mirror.example/mongodb.',
    );
  }
}

async function isResolvable(host) {
  const resolved = lookup(host).then(
    () => true,
    () => false,
  );
  return Promise.race([resolved, sleep(LOOKUP_TIMEOUT_MS, false, { ref: false })]);
}
