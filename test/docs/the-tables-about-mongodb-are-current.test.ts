import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { updateMongodbTables } from '../../scripts/mongodb-tables.ts';
import { ROOT } from '../support/first-run/test-home.ts';

test('docs/scaling.md has the tables that node scripts/write-mongodb-tables.ts writes', () => {
  const page = readFileSync(join(ROOT, 'docs/scaling.md'), 'utf8');
  expect(updateMongodbTables(page)).toBe(page);
});
