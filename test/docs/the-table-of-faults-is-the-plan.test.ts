import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { FAULT_PLAN } from '../faults/plan.ts';
import { GUARANTEE_TESTS } from '../guarantees/plan.ts';
import { formatFaultTable, formatGuaranteeTests } from '../support/faults/fault-table.ts';
import { ROOT } from '../support/first-run/test-home.ts';

const FAULT_ROW = /^\| \d+ \|.*$/gm;
const GUARANTEE_ROW = /^\| (G\d+) \|.* \| (.*) \|$/gm;

const page = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8');

test('docs/guarantees.md names the tests of each guarantee, as `npm run faults -- --table` prints them', () => {
  const rows = [...page.matchAll(GUARANTEE_ROW)].map(([, guarantee, tests]) => [guarantee, tests]);
  expect(rows).toEqual(formatGuaranteeTests(ROOT));
});

test('docs/guarantees.md has the row of each fault, as `npm run faults -- --table` prints it', () => {
  expect(page.match(FAULT_ROW)).toEqual(formatFaultTable(ROOT));
});

test('the tests of each guarantee exist', () => {
  const files = Object.values(GUARANTEE_TESTS).flat();
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});

test('each fault has tests that exist, or a reason', () => {
  for (const { files, reason } of FAULT_PLAN) expect(files.length === 0).toBe(reason !== undefined);
  const files = FAULT_PLAN.flatMap((planned) => planned.files);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});
