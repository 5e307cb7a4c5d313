import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import type { DeviceDocument, PushDocument } from '../../packages/store/src/documents.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

/** Pushes of the app with the backlog, and of each of two equal ones, to one device each. */
const LARGE = 5_000;
const EQUAL = 1_000;
const SMALL = 20;
const DEVICES = 100;
const IN_FLIGHT = 50;
/** Longer than a job may be without its worker. */
const FROZEN_MS = 6_000;
const DEADLINE_MS = 180_000;

let fixture: ProviderFixture;
let mongo: TestMongo;
let redis: Redis;
beforeAll(async () => {
  fixture = await openProviderFixture();
  mongo = await openMongo(fixture.stack.dev);
  redis = await openRedis(fixture.stack.dev);
});
afterAll(async () => {
  redis?.disconnect();
  await mongo?.close();
  await fixture?.close();
});

interface App extends TestTenant {
  tokens: string[];
}

/** iPhones, or phones over MQTT that are offline, whose pushes are delivered to their inboxes. */
async function openApp(channel: 'apns' | 'mqtt'): Promise<App> {
  const tenant = await fixture.tenant();
  const { tokens } = await registerIphones(tenant, DEVICES);
  if (channel === 'mqtt')
    await mongo.db
      .collection<DeviceDocument>('devices')
      .updateMany({ app: tenant.app }, { $set: { platform: 'electron' }, $unset: { provider: 1 } });
  return { ...tenant, tokens };
}

async function sendMany({ api, tokens }: App, count: number): Promise<void> {
  let next = 0;
  const sendNext = async () => {
    for (let n = next++; n < count; n = next++) {
      const to = tokens[n % tokens.length];
      const { status } = await api('POST', '/push', { to, data: { n } });
      expect(status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, sendNext));
}

const pushes = () => mongo.db.collection<PushDocument>('pushes');
const countWaiting = ({ app }: App) => pushes().countDocuments({ app, 'work.state': 'ready' });
const untilDone = (app: App) =>
  until(async () => (await countWaiting(app)) === 0, { everyMs: 10, timeoutMs: DEADLINE_MS });

/** Returns the number of recipients with each outcome. */
async function countOutcomes({ app }: App): Promise<Record<string, number>> {
  const totals: Record<string, number> = {};
  for await (const { work } of pushes().find({ app }, { projection: { 'work.counts': 1 } }))
    for (const [outcome, n] of Object.entries(work?.counts ?? {}))
      totals[outcome] = (totals[outcome] ?? 0) + n;
  return totals;
}

/** Suspends the workers while a task runs, and for at least as long as their jobs are theirs. */
async function whileFrozen(task: () => Promise<void>): Promise<void> {
  const { stack } = fixture;
  stack.kill('delivery-worker', 'SIGSTOP');
  await Promise.all([sleep(FROZEN_MS), task()]);
  stack.kill('delivery-worker', 'SIGCONT');
}

describe.each(['apns', 'mqtt'] as const)('single pushes over %s', (channel) => {
  const open = () => openApp(channel);
  const outcome = channel === 'apns' ? 'sent' : 'inbox';

  test(
    'beside a backlog a small app waits for no other, and equal ones end together',
    async () => {
      const [large, one, two, small] = [await open(), await open(), await open(), await open()];
      await whileFrozen(async () => {
        await sendMany(large, LARGE);
        await Promise.all([one, two].map((app) => sendMany(app, EQUAL)));
        await sendMany(small, SMALL);
      });
      await untilDone(small);
      expect(await countWaiting(large)).toBeGreaterThan(LARGE / 2);
      await Promise.all([untilDone(one), untilDone(two)]);
      expect(await countWaiting(large)).toBeGreaterThan(LARGE / 4);
      await untilDone(large);
      // By the number of pushes that were done before: the last of both has a place among the same.
      const all = [large, one, two, small];
      const [ofOne, ofTwo] = [await countDoneBefore(one, all), await countDoneBefore(two, all)];
      expect(Math.abs(ofOne - ofTwo)).toBeLessThan(Math.max(ofOne, ofTwo) / 10);
      expect(Math.max(ofOne, ofTwo)).toBeLessThan(LARGE);
      expect(await countOutcomes(large)).toEqual({ [outcome]: LARGE });
    },
    DEADLINE_MS,
  );

  test(
    'with Redis emptied, the API and the worker killed in the middle, it is so again, and nothing is lost',
    async () => {
      const [large, small] = [await open(), await open()];
      const { stack } = fixture;
      await whileFrozen(async () => {
        await sendMany(large, LARGE / 2);
        await emptyRedis(redis);
        await stack.waitForRestart('api', stack.kill('api', 'SIGKILL'));
        await sendMany(large, LARGE / 2);
        await stack.waitForRestart('delivery-worker', stack.kill('delivery-worker', 'SIGKILL'));
      });
      await sendMany(small, SMALL);
      await untilDone(small);
      expect(await countWaiting(large)).toBeGreaterThan(LARGE / 4);
      await untilDone(large);
      expect(await countOutcomes(large)).toEqual({ [outcome]: LARGE });
      expect(await countOutcomes(small)).toEqual({ [outcome]: SMALL });
    },
    DEADLINE_MS,
  );
});

/** Counts the pushes of some apps that were done before the last one of an app. */
async function countDoneBefore({ app }: App, all: readonly App[]): Promise<number> {
  const [last] = await pushes()
    .find({ app }, { projection: { 'work.closedAt': 1 } })
    .sort({ 'work.closedAt': -1 })
    .limit(1)
    .toArray();
  const apps = all.map((one) => one.app);
  const before = { $lt: last?.work?.closedAt ?? new Date(0) };
  return pushes().countDocuments({ app: { $in: apps }, 'work.closedAt': before });
}
