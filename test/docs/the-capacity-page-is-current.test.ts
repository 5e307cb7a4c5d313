import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { checkModel, MAX_ERROR } from '../../bench/model/check.ts';
import { fitCosts } from '../../bench/model/costs.ts';
import { readMeasured } from '../../bench/model/measured.ts';
import { renderModelPage } from '../../bench/model/page.ts';
import { ROOT } from '../support/first-run/test-home.ts';

test('docs/capacity-model.md has the tables that npm run bench:model -- page writes', () => {
  const page = readFileSync(join(ROOT, 'docs/capacity-model.md'), 'utf8');
  expect(renderModelPage(page)).toBe(page);
});

test('the model predicts the kept points that it was not fitted to', () => {
  const measured = readMeasured();
  const points = checkModel(measured, fitCosts(measured));
  const wrong = points.filter(({ error }) => !(Math.abs(error) <= MAX_ERROR));
  expect(points.length).toBeGreaterThanOrEqual(3);
  expect(wrong).toEqual([]);
});
