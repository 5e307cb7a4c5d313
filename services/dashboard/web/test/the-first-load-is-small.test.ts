import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from '@jest/globals';

const WEB = fileURLToPath(new URL('..', import.meta.url));
const MAX_FIRST_LOAD = 220 * 1_024;
/** Class of one of Mantine's components: its style must be in the build. */
const COMPONENT_CLASS = /\bm_[0-9a-f]{6,8}\b/g;

const folder = mkdtempSync(join(tmpdir(), 'carillon-web-'));
const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
const assets = (extension: string): string[] =>
  readdirSync(join(folder, 'assets')).filter((name) => name.endsWith(extension));

beforeAll(async () => {
  const vite = join(WEB, 'node_modules/vite/bin/vite.js');
  const options = [
    'build',
    '--manifest',
    '--outDir',
    folder,
    '--emptyOutDir',
    '--logLevel',
    'error',
  ];
  // Jest's own value would build React for development.
  const env = { ...process.env, NODE_ENV: 'production' };
  await promisify(execFile)(process.execPath, [vite, ...options], { cwd: WEB, env });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A built file, as the manifest of the build describes it. */
interface Chunk {
  file: string;
  css?: string[];
  /** Chunks that it requires. */
  imports?: string[];
}

/** Returns the gzipped size of all scripts and styles that some chunks need, in bytes. */
function measure(names: readonly string[]): number {
  const manifest = JSON.parse(read('.vite/manifest.json')) as Record<string, Chunk>;
  const files = new Set<string>();
  const add = (name: string): void => {
    const chunk = manifest[name];
    if (chunk === undefined) throw new Error(`the build has no ${name}`);
    if (files.has(chunk.file)) return;
    for (const file of [chunk.file, ...(chunk.css ?? [])]) files.add(file);
    for (const imported of chunk.imports ?? []) add(imported);
  };
  for (const name of names) add(name);
  return [...files].reduce((sum, file) => sum + gzipSync(read(file), { level: 9 }).length, 0);
}

const ROUTER = readFileSync(join(WEB, 'src/router.tsx'), 'utf8');
const PAGES = [...ROUTER.matchAll(/import\('\.\/(pages\/[^']+)'\)/g)].map(([, page = '']) => page);

test('the router loads each page by itself', () => {
  const paths = ROUTER.match(/\bpath: /g) ?? [];
  expect(PAGES.length).toBeGreaterThan(10);
  expect(new Set(PAGES).size).toBe(paths.length);
});

test.each(PAGES)('the first load of %s has at most 220 KB', (page) => {
  const size = measure(['index.html', 'src/shell/shell.tsx', `src/${page}`]);
  expect(size).toBeGreaterThan(100 * 1_024);
  expect(size).toBeLessThanOrEqual(MAX_FIRST_LOAD);
});

test('the entry page needs no exception in the Content-Security-Policy', () => {
  const html = read('index.html');
  expect(html).not.toMatch(/<script(?![^>]*\ssrc=)/);
  expect(html).not.toMatch(/(?:src|href)="(?!\/)/);
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=/);
});

test('every component has its styles', () => {
  const styles = new Set(
    assets('.css').flatMap((name) => read(`assets/${name}`).match(COMPONENT_CLASS)),
  );
  const used = assets('.js').flatMap((name) => read(`assets/${name}`).match(COMPONENT_CLASS) ?? []);
  // A few classes are only markers, which no style of the library selects.
  const known = new Set(
    readFileSync(join(WEB, 'node_modules/@mantine/core/styles.css'), 'utf8').match(COMPONENT_CLASS),
  );
  expect(used.length).toBeGreaterThan(0);
  expect([...new Set(used)].filter((name) => known.has(name) && !styles.has(name))).toEqual([]);
});
