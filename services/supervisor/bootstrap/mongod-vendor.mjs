// MongoDB from its vendor, where the vendor's host can be reached.

import { lookup } from 'node:dns/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { NODE_24, ROOT } from './places.mjs';
import { lastLines, run } from './run.mjs';
import { say, step } from './say.mjs';

const HOST = 'fastdl.mongodb.org';
const LOOKUP_MS = 3000;
const DOWNLOADER = fileURLToPath(new URL('./download-mongod.mjs', import.meta.url));

/**
 * Downloads the vendor's build for this system.
 *
 * @param {string} folder an empty folder
 * @returns {Promise<string | undefined>} the path of mongod; undefined when it can't be had so
 */
export async function downloadFromVendor(folder) {
  // The downloader itself would take 7 s and three tries to find out.
  if (!(await resolves(HOST))) return undefined;
  const done = await step(`Downloading MongoDB from ${HOST}`, () =>
    run(NODE_24, [DOWNLOADER, folder], { cwd: ROOT }),
  );
  if (done.ok) return done.stdout.trim();
  say(`MongoDB could not be downloaded from ${HOST}:\n${lastLines(done.output, 2)}`);
  return undefined;
}

async function resolves(host) {
  const found = lookup(host).then(
    () => true,
    () => false,
  );
  return Promise.race([found, sleep(LOOKUP_MS, false, { ref: false })]);
}
