// Builds the console's pages. Everything else of Carillon runs as it is written; browsers need a build.

import { createHash } from 'node:crypto';
import {
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { withLock } from './lock.mjs';
import { NODE_24, ROOT } from './paths.mjs';
import { lastLines, run } from './run.mjs';
import { runStep } from './terminal.mjs';

const FOLDER = join(ROOT, 'services/dashboard/web');
const PAGES = join(FOLDER, 'dist');
const MARKER = join(PAGES, '.built-from');
const SOURCES = ['index.html', 'package.json', 'vite.config.ts', 'public', 'src'];

/** Builds the pages unless they are built from the present sources. */
export async function ensurePages() {
  if (isBuilt()) return;
  await withLock(join(ROOT, '.carillon/pages.lock'), 'builds the console', async () => {
    if (!isBuilt()) await runStep("Building the console's pages", build);
  });
}

/** Checks whether the pages are those of the present sources. */
export function isBuilt() {
  return existsSync(MARKER) && readFileSync(MARKER, 'utf8') === hashSources();
}

function hashSources() {
  const hash = createHash('sha256').update(readFileSync(join(ROOT, 'pnpm-lock.yaml')));
  for (const path of SOURCES.flatMap((name) => listFiles(join(FOLDER, name)))) {
    hash.update(path).update('\0').update(readFileSync(path));
  }
  return hash.digest('hex');
}

function listFiles(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => listFiles(join(path, name)));
}

/** A running console serves the old pages until the new ones are whole. */
async function build() {
  const hash = hashSources();
  const next = join(FOLDER, 'dist.next');
  const vite = join(FOLDER, 'node_modules/vite/bin/vite.js');
  const args = ['build', '--outDir', next, '--emptyOutDir', '--logLevel', 'warn'];
  // Another value would build React's development version.
  const env = { NODE_ENV: 'production' };
  const result = await run(NODE_24, [vite, ...args], { cwd: FOLDER, env });
  if (!result.ok)
    throw new Error(`The console's pages could not be built:\n${lastLines(result.output)}`);
  writeFileSync(join(next, '.built-from'), hash);
  rmSync(PAGES, { recursive: true, force: true });
  renameSync(next, PAGES);
}
