import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { FAULT_PLAN } from '../faults/plan.ts';
import { createFileList, formatFaultTable } from '../support/faults/fault-table.ts';
import { ROOT } from '../support/first-run/test-home.ts';

const FAULT_ROW = /^\| \d+ \|.*$/gm;
const GUARANTEE_ROW = /^\| (G\d+) \|.* \| (.*) \|$/gm;

const page = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8');

test('docs/guarantees.md names the tests of each guarantee, marked by their tiers, and one of seconds', () => {
  const rows = [...page.matchAll(GUARANTEE_ROW)].map(([, name, tests = '']) => ({ name, tests }));
  expect(rows.map(({ name }) => name)).toEqual(Array.from({ length: 17 }, (_, n) => `G${n + 1}`));
  const listFiles = createFileList(ROOT);
  for (const { name, tests } of rows) {
    const files = [...tests.matchAll(/`(.+?)`/g)].map(([, file = '']) => file);
    expect([name, tests]).toEqual([name, listFiles(files)]);
    expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
    // Of the tiers of `npm test`, which have no mark.
    expect([name, files.some((file) => listFiles([file]) === `\`${file}\``)]).toEqual([name, true]);
  }
});

test('docs/guarantees.md has the row of each fault, as `npm run faults -- --table` prints it', () => {
  expect(page.match(FAULT_ROW)).toEqual(formatFaultTable(ROOT));
});

test('each fault has tests that exist, or a reason', () => {
  for (const { files, reason } of FAULT_PLAN) expect(files.length === 0).toBe(reason !== undefined);
  const files = FAULT_PLAN.flatMap((planned) => planned.files);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});
