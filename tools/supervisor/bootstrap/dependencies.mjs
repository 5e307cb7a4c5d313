// Installs the project's dependencies: pnpm and Node, each of one exact version, into the user's
// cache, then the packages of the lockfile.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from './lock.mjs';
import { isExecutable, NODE_24, PNPM, ROOT } from './paths.mjs';
import { run } from './run.mjs';
import { runStep } from './terminal.mjs';
import { createInstallError, ensureNode, ensurePnpm } from './tools.mjs';

const MARKER = join(ROOT, 'node_modules/.carillon-installed');

/** Installs the packages of the lockfile. Returns at once when they are already installed. */
export async function ensureDependencies() {
  if (isInstalled()) return;
  const lock = join(ROOT, '.carillon/install.lock');
  await withLock(lock, 'installs the dependencies', async () => {
    if (isInstalled()) return;
    const hash = lockfileHash();
    await ensurePnpm();
    await ensureNode();
    await runStep('Installing the dependencies', install);
    linkNode();
    writeFileSync(MARKER, hash);
  });
}

/** Checks whether the packages of the lockfile are installed. */
export function isInstalled() {
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

async function install(report) {
  // CI=true: pnpm does not prompt, even when it replaces a node_modules of another package manager.
  const result = await run(PNPM.program, ['install', '--frozen-lockfile'], {
    cwd: ROOT,
    env: { CI: 'true' },
    onLine: (line) => reportPackages(line, report),
  });
  if (!result.ok)
    throw createInstallError('pnpm could not install the dependencies', result.output);
}

/** Reports pnpm's line `Progress: resolved 563, reused 0, downloaded 90, added 80`. */
function reportPackages(line, report) {
  const [, reused, downloaded] = /^Progress: .*reused (\d+), downloaded (\d+)/.exec(line) ?? [];
  if (reused !== undefined) report(`${Number(reused) + Number(downloaded)} packages`);
}

/** Links Node into node_modules/.bin, where the scripts of package.json find it. */
function linkNode() {
  const link = join(ROOT, 'node_modules/.bin/node');
  mkdirSync(join(ROOT, 'node_modules/.bin'), { recursive: true });
  rmSync(link, { force: true });
  symlinkSync(NODE_24, link);
}
