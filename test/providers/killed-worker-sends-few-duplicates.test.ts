import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { expectWithin } from '../support/lag.ts';
import { openMongo } from '../support/mongo.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones, subscribePhones } from '../support/providers/provider-device-pool.ts';
import { readStartTime } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const IPHONES = 2_000;
/** Batches of one app in progress at once. */
const BATCHES = 2;
const KILLS = 3;
const WORKER = 'delivery-worker';
/** Requests in flight to APNs: the outcome of those that a killed worker has sent is unknown. */
const WINDOW = 150;
/** Responses that a batch may have got without saving them. */
const UNSAVED = 25;
/** After its restart. */
const CONTINUES_WITHIN_MS = 5_000;
const SLOW_RESPONSES = { delayMs: 400 };
/** The number of duplicates does not grow with the push: from 200,000 recipients on it is within a thousandth (guarantee G4). */
const CROWD = Number(process.env.CARILLON_CROWD ?? 20_000);

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant();
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

async function requests(): Promise<number> {
  return (await fixture.sandbox.counts()).byChannel.apns?.requests ?? 0;
}

/** Stops the worker and waits until it has ended, and has released its batches. Returns its pid. */
async function stopWorker(): Promise<number> {
  const old = fixture.stack.kill(WORKER, 'SIGTERM');
  const isGone = () => readStartTime(old) === undefined;
  // The supervisor would kill it then.
  await until(isGone, { timeoutMs: 25_000, everyMs: 20, what: 'the worker has stopped' });
  const mongo = await openMongo(fixture.stack.dev);
  const held = { 'work.state': 'ready', 'work.claim': { $exists: true } };
  for (const name of ['pushes', 'batches'])
    expect(await mongo.db.collection(name).countDocuments(held)).toBe(0);
  await mongo.close();
  return old;
}

async function sendSlowly(): Promise<Sent> {
  const { tokens } = await registerIphones(tenant, IPHONES);
  await fixture.sandbox.setFaults('apns', SLOW_RESPONSES);
  const push = await send(tenant, tokens);
  await until(async () => (await requests()) > WINDOW, { everyMs: 10 });
  return push;
}

test('killed three times in the middle, it loses nothing and repeats few requests', async () => {
  const { stack, sandbox, store } = fixture;
  const push = await sendSlowly();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const before = await requests();
    await stack.waitForRestart(WORKER, stack.kill(WORKER, 'SIGKILL'));
    const isSending = async () => (await requests()) > before + WINDOW / 2;
    await until(isSending, { timeoutMs: 60_000, everyMs: 10, what: 'the worker continues' });
  }
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  const { duplicates } = await sandbox.counts();
  expect(duplicates).toBeGreaterThan(0);
  expect(duplicates).toBeLessThanOrEqual(KILLS * (WINDOW + BATCHES * UNSAVED));
});

test('stopped by a signal in the middle, it repeats nothing, and another continues at once', async () => {
  const { stack, sandbox, store } = fixture;
  const push = await sendSlowly();
  const old = await stopWorker();
  const before = await requests();
  await stack.waitForRestart(WORKER, old);
  await expectWithin(
    CONTINUES_WITHIN_MS,
    until(async () => (await requests()) > before),
  );
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test('stopped while APNs does not respond, it ends within its deadline and releases all batches', async () => {
  const { stack, sandbox, store } = fixture;
  const { tokens } = await registerIphones(tenant, IPHONES);
  await sandbox.setFaults('apns', { blackHole: true });
  const push = await send(tenant, tokens);
  await until(async () => (await requests()) >= WINDOW, { everyMs: 10 });
  const old = await stopWorker();
  expect(stack.readLog(WORKER)).not.toContain('releasing a resource failed');
  await sandbox.setFaults('apns', { blackHole: false });
  await stack.waitForRestart(WORKER, old);
  await untilOutcomeCounts(store, push, { sent: IPHONES });
  expect((await sandbox.counts()).duplicates).toBe(0);
});

test(
  'killed once in the middle of a large push, it repeats no more',
  async () => {
    const { stack, sandbox, store } = fixture;
    const { tokens } = await registerIphones(tenant, CROWD);
    await subscribePhones(tenant, 'all', tokens);
    const push = await send(tenant, '/topics/all');
    const pollOptions = { timeoutMs: 50_000 + CROWD, everyMs: 20 };
    await until(async () => (await requests()) > CROWD / 2, pollOptions);
    const killed = stack.kill(WORKER, 'SIGKILL');
    expect(await requests()).toBeLessThan(CROWD);
    await stack.waitForRestart(WORKER, killed);
    await untilOutcomeCounts(store, push, { sent: CROWD }, pollOptions);
    expect((await sandbox.counts()).duplicates).toBeLessThanOrEqual(WINDOW + BATCHES * UNSAVED);
  },
  150_000 + 2 * CROWD,
);
