import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { SCATTERED_STATEMENTS } from '../../packages/store/src/scattered-statements.ts';

const ROOT = new URL('../../', import.meta.url);
const STORE = 'packages/store/src';

/** Reads the number behind a text in a source file, such as `maxBatchSize: `. @throws if it is absent or not alone */
function readNumber(path: string, before: string): number {
  const parts = readFileSync(new URL(path, ROOT), 'utf8').split(before).slice(1);
  const numbers = parts.flatMap((rest) => /^[\d_]+/.exec(rest)?.[0] ?? []);
  const [only = ''] = numbers;
  if (numbers.length !== 1) throw new Error(`${path}: ${numbers.length} numbers after ${before}`);
  return Number(only.replaceAll('_', ''));
}

const format = (value: number) => value.toLocaleString('en');
const seconds = (path: string, before: string) => format(readNumber(path, before) / 1_000);
const count = (path: string, before: string) => format(readNumber(path, before));

/** Phrases of the table, with the numbers from the code that sets the limit or the interval. */
const PHRASES: readonly (readonly [name: string, phrase: string])[] = [
  ['retention.abandonStale', `every ${seconds('services/scheduler/src/main.ts', 'clean: ')} s`],
  [
    'retention.purge',
    `for up to ${count('services/scheduler/src/clean.ts', 'const ITEMS_PER_TICK = ')} pushes`,
  ],
  [
    'backlog.measure',
    `every ${seconds('services/scheduler/src/backlog-metrics.ts', 'const MAX_AGE_MS = ')} s`,
  ],
  ['collapse.hasNewer', `up to ${count(`${STORE}/collapse.ts`, 'maxBatchSize: ')} rows`],
  [
    'deletedDevices.filterDeleted',
    `up to ${count(`${STORE}/deleted-devices.ts`, 'maxBatchSize: ')} batches`,
  ],
  [
    'deletedDevices.filterDeleted',
    `of which ${count(`${STORE}/deleted-devices.ts`, 'maxInFlight: ')} are in flight`,
  ],
  [
    'deviceOverviews.find',
    `ends after ${seconds(`${STORE}/device-overviews.ts`, 'const SEARCH_TIMEOUT_MS = ')} s`,
  ],
  [
    'deviceOverviews.find',
    `left out for ${seconds(`${STORE}/device-overviews.ts`, 'const SEARCH_PAUSE_MS = ')} s`,
  ],
  [
    'erasure.eraseFromPushes',
    `each ${count(`${STORE}/erasure.ts`, 'const PUSHES_PER_STEP = ')} pushes`,
  ],
  ['webhooks.remove', `each ${count(`${STORE}/webhooks.ts`, 'const DEVICES_PER_STEP = ')} devices`],
  [
    'failures.iteratePushes',
    `each ${count('services/dashboard/src/failures/redrive-worker.ts', 'const PUSHES_PER_PAGE = ')} pushes`,
  ],
];

test.each(PHRASES)('%s: %s', (name, phrase) => {
  expect(SCATTERED_STATEMENTS[name]?.runs).toContain(phrase);
});
