import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { FAULT_PLAN } from '../faults/plan.ts';
import { formatFaultTable } from '../support/faults/fault-table.ts';
import { ROOT } from '../support/first-run/test-home.ts';

const ROW = /^\| \d+ \|.*$/gm;

test('docs/guarantees.md has the row of each fault, as `npm run faults -- --table` prints it', () => {
  const guarantees = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8');
  expect(guarantees.match(ROW)).toEqual(formatFaultTable(ROOT));
});

test('each fault has tests that exist, or a reason', () => {
  for (const { files, reason } of FAULT_PLAN) expect(files.length === 0).toBe(reason !== undefined);
  const files = FAULT_PLAN.flatMap((planned) => planned.files);
  expect(files.filter((file) => !existsSync(join(ROOT, file)))).toEqual([]);
});
