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
  const options = ['build', '--outDir', folder, '--emptyOutDir', '--logLevel', 'error'];
  // Jest's own value would build React for development.
  const env = { ...process.env, NODE_ENV: 'production' };
  await promisify(execFile)(process.execPath, [vite, ...options], { cwd: WEB, env });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('the first load has at most 220 KB', () => {
  const files = [...read('index.html').matchAll(/(?:src|href)="\/(assets\/[^"]+)"/g)];
  const sizes = files.map(([, name = '']) => gzipSync(read(name), { level: 9 }).length);
  expect(sizes.length).toBeGreaterThan(2);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MAX_FIRST_LOAD);
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
  // A few classes are only marks, which no style of the library names.
  const known = new Set(
    readFileSync(join(WEB, 'node_modules/@mantine/core/styles.css'), 'utf8').match(COMPONENT_CLASS),
  );
  expect(used.length).toBeGreaterThan(0);
  expect([...new Set(used)].filter((name) => known.has(name) && !styles.has(name))).toEqual([]);
});
