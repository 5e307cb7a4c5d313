import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { renderLimitsPage } from '../../scripts/limits-page.ts';
import { renderMetricsPage } from '../../scripts/metrics-page.ts';
import { ROOT } from '../support/first-run/test-home.ts';

test.each([
  ['docs/run/metrics.md', renderMetricsPage],
  ['docs/use/limits.md', renderLimitsPage],
])('%s is what `npm run docs:settings` writes', (page, render) => {
  expect(readFileSync(join(ROOT, page), 'utf8')).toBe(render());
});
