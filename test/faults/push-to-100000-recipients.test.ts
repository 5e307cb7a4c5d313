import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { expectFewDuplicates, expectNoneLost } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { readPeakMemory } from '../support/faults/peak-memory.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { until } from '../support/until.ts';

const REGISTERED = 100_000;
const REAL = 20;
const OTHERS = REGISTERED - REAL;
const POLL_OPTIONS = { timeoutMs: 50_000, everyMs: 500 };
const SHORT_SECONDS = 25;
/** The maximum that the specification allows in a response. */
const PENDING_SHOWN = 1_000;
const MEMORY_MB = 300;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture({ registered: REGISTERED, real: REAL });
});
afterAll(() => fixture?.close());

async function expectReached(push: SentPush, plan: string): Promise<void> {
  const { stack, mongo, pool } = fixture;
  await untilOutcomes(mongo, push, { delivered: REAL, inbox: OTHERS }, POLL_OPTIONS);
  await expectNoneLost(stack, pool.devices, push);
  expectFewDuplicates(plan, pool.devices, push, 0);
}

test('tokens: each is counted, and delivered or pending; 1,000 of the pending ones are listed', async () => {
  const { stack, pool } = fixture;
  const push = await sendPush(stack, pool.tokens);
  expect(push.devices).toBe(REGISTERED);
  await expectReached(push, '100,000 tokens');
  const { json } = await stack.api<{ push: { pending_devices: string[] } }>(
    'GET',
    `/pushes/${push.id}`,
  );
  const offline = new Set(pool.tokens.slice(REAL));
  expect(new Set(json.push.pending_devices).size).toBe(PENDING_SHOWN);
  expect(json.push.pending_devices.filter((token) => !offline.has(token))).toEqual([]);
  await expectPendingInSample(push);
});

test('a topic: each subscriber is counted, and delivered or pending', async () => {
  const { stack } = fixture;
  const push = await sendPush(stack, await subscribePool(fixture, 'everybody'));
  expect(push.devices).toBe(REGISTERED);
  await expectReached(push, '100,000 subscribers');
  await expectPendingInSample(push);
  const { json } = await stack.api('GET', '/topics');
  expect(json).toEqual({ topics: [{ name: 'everybody', subscribers: REGISTERED }] });
});

test('nothing is left of a push that has expired', async () => {
  const { stack, mongo, pool } = fixture;
  const push = await sendPush(stack, pool.tokens, { time_to_live: SHORT_SECONDS });
  await until(async () => (await pushStatusOf(mongo, push)).state === 'finished', POLL_OPTIONS);
  await untilOutcomes(mongo, push, { delivered: REAL, expired: OTHERS }, POLL_OPTIONS);
  await until(
    async () => (await mongo.db.collection('inbox').countDocuments({ push: push.id })) === 0,
  );
  const { json } = await stack.api('GET', `/pushes/${push.id}`);
  expect(json).toMatchObject({ code: 'INVALID_PUSH_ID' });
});

test('no service has needed much memory for it', () => {
  const peaks = readPeakMemory(fixture.stack);
  process.stdout.write(`peak memory in MB: ${JSON.stringify(peaks)}\n`);
  expect(Object.keys(peaks)).not.toEqual([]);
  expect(Object.entries(peaks).filter(([, mb]) => !(mb < MEMORY_MB))).toEqual([]);
});

/** Expects the push among the pending notifications of a sample of the offline devices. */
async function expectPendingInSample(push: SentPush): Promise<void> {
  const { stack, pool } = fixture;
  for (const token of [pool.tokens[REAL], pool.tokens[50_000], pool.tokens.at(-1)]) {
    const { json } = await stack.api<{ pending_notifications: { id: string }[] }>(
      'GET',
      `/devices/${token}`,
    );
    expect(json.pending_notifications.map(({ id }) => id)).toContain(push.id);
  }
}
