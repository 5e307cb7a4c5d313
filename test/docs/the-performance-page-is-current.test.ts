import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { renderPerformancePage } from '../../bench/performance-page.ts';
import { readResults } from '../../bench/support/results.ts';
import { ROOT } from '../support/first-run/test-home.ts';

test('docs/performance.md shows the results of the last run of npm run bench', async () => {
  const page = readFileSync(join(ROOT, 'docs/performance.md'), 'utf8');
  expect(page).toBe(renderPerformancePage(await readResults()));
  expect(page.split('\n').length).toBeLessThanOrEqual(150);
});
