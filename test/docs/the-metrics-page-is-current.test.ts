import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { renderMetricsPage } from '../../scripts/metrics-page.ts';
import { ROOT } from '../support/first-run/test-home.ts';

test('docs/run/metrics.md is what node scripts/write-metrics-page.ts writes', () => {
  expect(readFileSync(join(ROOT, 'docs/run/metrics.md'), 'utf8')).toBe(renderMetricsPage());
});
