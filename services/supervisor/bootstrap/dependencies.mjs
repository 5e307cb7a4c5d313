// The project's dependencies: pnpm of one exact version in the user's cache, then what the
// lockfile names.

import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from './lock.mjs';
import { CACHE, isExecutable, NODE_24, ROOT } from './places.mjs';
import { lastLines, run } from './run.mjs';
import { Refusal, step } from './say.mjs';

const PNPM_VERSION = '12.21.0';
const MARKER = join(ROOT, 'node_modules/.carillon-installed');

/** Makes sure that node_modules holds what the lockfile names; quick when it does already. */
export async function ensureDependencies() {
  if (isInstalled()) return;
  const lock = join(ROOT, '.carillon/install.lock');
  await withLock(lock, 'installs the dependencies', async () => {
    if (isInstalled()) return;
    const hash = lockfileHash();
    const pnpm = await ensurePnpm();
    await step('Installing the dependencies', () => install(pnpm));
    writeFileSync(MARKER, hash);
  });
}

function isInstalled() {
  try {
    return readFileSync(MARKER, 'utf8') === lockfileHash() && isExecutable(NODE_24);
  } catch {
    return false;
  }
}

function lockfileHash() {
  return createHash('sha256')
    .update(readFileSync(join(ROOT, 'pnpm-lock.yaml')))
    .digest('hex');
}

async function ensurePnpm() {
  const folder = join(CACHE, `pnpm-${PNPM_VERSION}`);
  const pnpm = join(folder, 'node_modules/.bin/pnpm');
  if (isExecutable(pnpm)) return pnpm;
  await withLock(join(CACHE, 'pnpm.lock'), 'fetches pnpm', async () => {
    if (!isExecutable(pnpm)) await step('Fetching pnpm', () => fetchPnpm(folder));
  });
  return pnpm;
}

async function fetchPnpm(folder) {
  mkdirSync(CACHE, { recursive: true });
  const half = mkdtempSync(join(CACHE, 'pnpm-half-'));
  try {
    const flags = ['--no-audit', '--no-fund', '--no-update-notifier', '--loglevel=error'];
    const npm = await run('npm', ['install', '--prefix', half, ...flags, `pnpm@${PNPM_VERSION}`]);
    if (npm.missing) throw new Refusal('npm is not on PATH. Install it (it comes with Node).');
    if (!npm.ok) throw installFailure('npm could not fetch pnpm', npm.output);
    rmSync(folder, { recursive: true, force: true });
    renameSync(half, folder);
  } finally {
    rmSync(half, { recursive: true, force: true });
  }
}

async function install(pnpm) {
  // CI=true: pnpm asks nothing, also when it has to replace a node_modules of another make.
  const done = await run(pnpm, ['install', '--frozen-lockfile'], {
    cwd: ROOT,
    env: { CI: 'true' },
  });
  if (!done.ok) throw installFailure('pnpm could not install the dependencies', done.output);
  const node = await run(NODE_24, ['--version']);
  if (!node.ok) {
    throw new Refusal(
      `The installed Node 24 does not run on this machine (${process.platform} ${process.arch}):\n${lastLines(node.output, 2)}`,
    );
  }
}

const NO_NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|dns error|error sending request/i;

function installFailure(what, output) {
  const why = NO_NETWORK.test(output)
    ? 'the npm registry can’t be reached. Check the network (or the registry and proxy that npm is set to) and run the command again'
    : 'its last words were';
  return new Refusal(`${what}: ${why}:\n${lastLines(output)}`);
}
