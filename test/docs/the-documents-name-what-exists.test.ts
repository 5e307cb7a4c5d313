import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';

const PATTERNS = [
  '*.md',
  'docs/**/*.md',
  '.github/*.md',
  '{packages,services,tools}/*/README.md',
  'services/dashboard/web/README.md',
  'bench/README.md',
];
const DOCUMENTS = globSync(PATTERNS, { cwd: ROOT }).sort();
/** Code spans that begin with a folder of the repository; `*` and `<…>` match any name. */
const PATH = /`((?:services|packages|tools|test|bench|docs|\.github|\.ci)\/[\w./@-]+)`/g;
const LINK = /\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)/g;
const COMMAND = /(?<!\w)npm run (?:-s )?([\w:-]+)/g;

test('there are documents', () => expect(DOCUMENTS.length).toBeGreaterThan(10));

test.each(DOCUMENTS)('%s names files and folders that exist', (document) => {
  const missing = [...textOf(document).matchAll(PATH)]
    .map(([, path = '']) => path)
    .filter((path) => !existsSync(join(ROOT, path)));
  expect(missing).toEqual([]);
});

test.each(DOCUMENTS)('%s links to what exists', (document) => {
  const missing = [...withoutCode(textOf(document)).matchAll(LINK)]
    .map(([, path = '']) => path)
    .filter((path) => !existsSync(join(ROOT, dirname(document), path)));
  expect(missing).toEqual([]);
});

test.each(DOCUMENTS)('%s has commands to copy that are scripts of package.json', (document) => {
  const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
  const blocks = [...textOf(document).matchAll(/^ *```sh\n([\s\S]*?)^ *```/gm)].join('\n');
  const unknown = [...blocks.matchAll(COMMAND)]
    .map(([, script = '']) => script)
    .filter((script) => !(script in scripts));
  expect(unknown).toEqual([]);
});

const READMES = DOCUMENTS.filter(
  (path) => path.endsWith('/README.md') && !path.startsWith('docs/'),
);
const MAX_README_LINES = 15;

test.each(READMES)('%s has at most 15 lines', (readme) => {
  expect(textOf(readme).trimEnd().split('\n').length).toBeLessThanOrEqual(MAX_README_LINES);
});

test('the glossary defines each of its words once, and at most 40', () => {
  const words = [...textOf('docs/change/glossary.md').matchAll(/^\| ([^|]+) \|/gm)]
    .flatMap(([, cell = '']) => cell.split(', '))
    .filter((word) => word !== 'word');
  expect(words.length).toBeGreaterThan(20);
  expect(words.length).toBeLessThanOrEqual(40);
  expect(new Set(words).size).toBe(words.length);
});

function textOf(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function withoutCode(text: string): string {
  return text.replaceAll(/^```[\s\S]*?^```/gm, '').replaceAll(/`[^`\n]*`/g, '');
}
