import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { ROOT } from '../support/first-run/test-home.ts';

const read = (page: string) => readFileSync(join(ROOT, `docs/${page}.md`), 'utf8');
const headingsOf = (text: string) =>
  [...text.matchAll(/^###? (.+)$/gm)].map(([, heading = '']) => heading);

/** The part of the page that lists statements with their tests. */
const [, statements = ''] = read('change/security-tests').split('\n## Statements of security.md\n');

test('docs/change/security-tests.md has each section of docs/run/security.md, in its order', () => {
  expect(headingsOf(statements)).toEqual(headingsOf(read('run/security')));
});

test('each section has statements, and each statement has a test or the reason why there is none', () => {
  for (const section of statements.split(/^### /m).slice(1)) {
    const rows = section.split('\n').filter((line) => line.startsWith('| ') && line.endsWith(' |'));
    const [, ...statementRows] = rows;
    expect(statementRows.length).toBeGreaterThan(0);
    for (const row of statementRows)
      expect(row).toMatch(/ \| (?:`\S+\.test\.ts`.*|Not tested\. \S.*) \|$/);
  }
});
