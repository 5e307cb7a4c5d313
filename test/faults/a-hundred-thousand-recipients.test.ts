import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { peaksOf } from '../support/faults/memory.ts';
import { fatesOf, type SentPush, sendPush, untilFates } from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { subscribeCrowd } from '../support/faults/topic.ts';
import { expectFewDoubles, expectNoneLost } from '../support/faults/whole.ts';
import { until } from '../support/until.ts';

const REGISTERED = 100_000;
const REAL = 20;
const OTHERS = REGISTERED - REAL;
const WORKED = { timeoutMs: 50_000, everyMs: 500 };
const SHORT_SECONDS = 25;
/** What the specification shows at most. */
const PENDING_SHOWN = 1_000;
const MEMORY_MB = 300;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene({ registered: REGISTERED, real: REAL });
});
afterAll(() => scene?.close());

async function expectReached(push: SentPush, plan: string): Promise<void> {
  const { stack, mongo, crowd } = scene;
  await untilFates(mongo, push, { delivered: REAL, inbox: OTHERS }, WORKED);
  await expectNoneLost(stack, crowd.devices, push);
  expectFewDoubles(plan, crowd.devices, push, 0);
}

test('tokens: each is counted, reached or owed, and a thousand of the pending are shown', async () => {
  const { stack, crowd } = scene;
  const push = await sendPush(stack, crowd.tokens);
  expect(push.devices).toBe(REGISTERED);
  await expectReached(push, '100,000 tokens');
  const { json } = await stack.api<Status>('GET', `/pushes/${push.id}`);
  const offline = new Set(crowd.tokens.slice(REAL));
  expect(new Set(json.push.pending_devices).size).toBe(PENDING_SHOWN);
  expect(json.push.pending_devices.filter((token) => !offline.has(token))).toEqual([]);
  await expectPendingAtSome(push);
});

test('a topic: each subscriber is counted, reached or owed', async () => {
  const { stack } = scene;
  const push = await sendPush(stack, await subscribeCrowd(scene, 'everybody'));
  expect(push.devices).toBe(REGISTERED);
  await expectReached(push, '100,000 subscribers');
  await expectPendingAtSome(push);
  const { json } = await stack.api('GET', '/topics');
  expect(json).toEqual({ topics: [{ name: 'everybody', subscribers: REGISTERED }] });
});

test('nothing is left of a push that has expired', async () => {
  const { stack, mongo, crowd } = scene;
  const push = await sendPush(stack, crowd.tokens, { time_to_live: SHORT_SECONDS });
  await until(async () => (await fatesOf(mongo, push)).state === 'finished', WORKED);
  await untilFates(mongo, push, { delivered: REAL, expired: OTHERS }, WORKED);
  await until(
    async () => (await mongo.db.collection('inbox').countDocuments({ push: push.id })) === 0,
  );
  const { json } = await stack.api('GET', `/pushes/${push.id}`);
  expect(json).toMatchObject({ code: 'INVALID_PUSH_ID' });
});

test('no service has needed much memory for it', () => {
  const peaks = peaksOf(scene.stack);
  process.stdout.write(`peak memory in MB: ${JSON.stringify(peaks)}\n`);
  expect(Object.keys(peaks)).not.toEqual([]);
  expect(Object.entries(peaks).filter(([, mb]) => !(mb < MEMORY_MB))).toEqual([]);
});

/** A sample of the devices that are offline is told to be owed the push. */
async function expectPendingAtSome(push: SentPush): Promise<void> {
  const { stack, crowd } = scene;
  for (const token of [crowd.tokens[REAL], crowd.tokens[50_000], crowd.tokens.at(-1)]) {
    const { json } = await stack.api<Info>('GET', `/devices/${token}`);
    expect(json.pending_notifications.map(({ id }) => id)).toContain(push.id);
  }
}

interface Status {
  push: { pending_devices: string[] };
}

interface Info {
  pending_notifications: { id: string }[];
}
