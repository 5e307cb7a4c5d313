import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { NUMBERS } from './support/docs/numbers.ts';
import { ROOT } from './support/first-run/test-home.ts';

const DOCUMENTS = globSync(['README.md', 'docs/*.md', 'docs/{decisions,runbooks}/*.md'], {
  cwd: ROOT,
}).sort();

interface Quotation {
  file: string;
  line: number;
  name: string;
  /** Undefined when no number precedes the comment. */
  value: number | undefined;
}

/** Finds the marked numbers of a text; other comments, such as those of a linter, hold no name with a dot. */
function findQuotations(file: string, text: string): Quotation[] {
  return text.split('\n').flatMap((content, index) =>
    [...content.matchAll(/([\d,.]*)<!-- ([a-z-]+\.[a-z-]+) -->/g)].map(([, digits, name = '']) => {
      const value = digits ? Number(digits.replaceAll(',', '')) : undefined;
      return { file, line: index + 1, name, value };
    }),
  );
}

function findMistakes(quotations: readonly Quotation[]): string[] {
  return quotations
    .filter(({ name, value }) => value === undefined || NUMBERS[name] !== value)
    .map(
      ({ file, line, name, value }) => `${file}:${line} ${name}: ${value}, not ${NUMBERS[name]}`,
    );
}

const QUOTATIONS = DOCUMENTS.flatMap((file) =>
  findQuotations(file, readFileSync(join(ROOT, file), 'utf8')),
);

test('every marked number in the docs is the one in the code', () => {
  expect(findMistakes(QUOTATIONS)).toEqual([]);
});

test('every number of the list is quoted, so that no mark is lost', () => {
  const quoted = new Set(QUOTATIONS.map(({ name }) => name));
  expect(Object.keys(NUMBERS).filter((name) => !quoted.has(name))).toEqual([]);
});

test('a wrong number, an unknown name and a comment without a number are found', () => {
  const text = '200<!-- apns.window --> and 1<!-- no.such-name -->\nmany<!-- fcm.window -->';
  expect(findMistakes(findQuotations('a.md', text))).toEqual([
    'a.md:1 apns.window: 200, not 150',
    'a.md:1 no.such-name: 1, not undefined',
    'a.md:2 fcm.window: undefined, not 100',
  ]);
});
