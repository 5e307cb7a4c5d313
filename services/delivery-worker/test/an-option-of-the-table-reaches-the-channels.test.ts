import { setTimeout as sleep } from 'node:timers/promises';
import { pushOptions } from '@carillon/core/push-options';
import { createDispatcher } from '@carillon/presence/dispatcher';
import { connectShards, type Shards } from '@carillon/presence/shards';
import { createProducers } from '@carillon/queue/producers';
import { connectStore } from '@carillon/store/store';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { z } from 'zod';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import type { DeliverByChannel } from '../src/deliver/channel.ts';
import { deliverBatch } from '../src/deliver/deliver-batch.ts';
import { createIsolation } from '../src/deliver/isolation.ts';
import { createLeases } from '../src/deliver/send-gate.ts';
import { startWorkers } from '../src/workers.ts';

/** The option that a developer adds: nothing but this line knows of it. */
Object.assign(pushOptions, { test_option: z.string().optional() });
// The request's schema is made of the table when it is loaded.
const { acceptPush } = await import('../../../packages/accept/src/accept-push.ts');
const { parsePush } = await import('../../../packages/accept/src/parse-push.ts');

const APP = 'a'.repeat(24);
const PER_SECOND = 500;
const CONCURRENCY = 24;

const stops: (() => unknown)[] = [];
/** Options that the channel got, by push. */
const received = new Map<string, Record<string, unknown>>();
let send: (option: string) => Promise<string>;

beforeAll(async () => {
  const [database, redis] = await Promise.all([startDatabase(), startRedis()]);
  stops.push(database.stop, redis.stop);
  const store = await connectStore({ uri: database.uri, appName: 'test' });
  stops.push(store.close);
  await store.migrate();
  const onError = () => undefined;
  const producers = createProducers(redis, onError);
  stops.push(producers.close);
  const shards: Shards = await connectShards(redis);
  stops.push(shards.close);
  const dispatcher = await createDispatcher(shards);
  stops.push(dispatcher.close);
  const leases = createLeases(store.batchTable, dispatcher.replyStream, onError);
  stops.push(leases.stop);
  const channel: DeliverByChannel = async (delivery) => {
    received.set(delivery.push._id, { ...delivery.push.options });
    delivery.recordReceipt(0);
    return { done: true };
  };
  const delivery = {
    ...{ store, producers, dispatcher, leases, onError, channels: { mqtt: channel } },
    getAppSettings: async () => {
      throw new Error('no setting of the app concerns MQTT');
    },
    retentionMs: 60_000,
    isolation: createIsolation(),
    isStopping: () => false,
    observeLatencies: () => undefined,
  };
  const processors = {
    deliver: async (id: string) => (await deliverBatch(delivery, id)).trace,
    ...{ fanOut: onNothing, checkCompletion: onNothing },
    ...{ recordActivity: onNothing, recordKeyUses: onNothing },
  };
  const workers = startWorkers({ redis, onError }, processors, ['send'], CONCURRENCY);
  stops.push(...workers.map(({ stop }) => stop));
  const { token } = await store.devices.register(APP, 'android');
  send = async (test_option) => {
    const value = { to: token, data: {}, test_option };
    const body = { value, text: JSON.stringify(value) };
    const request = parsePush(body, {}, store.clock.now());
    return (await acceptPush(store, producers, APP, request)).id;
  };
});
afterAll(async () => {
  for (const stop of stops.toReversed()) await stop();
});

async function onNothing(): Promise<void> {}

test('of a push alone', async () => {
  const id = await send('alone');
  await until(() => received.has(id));
  expect(received.get(id)).toEqual({ test_option: 'alone' });
});

test('of hundreds a second', async () => {
  const sending: Promise<string>[] = [];
  for (let n = 0; n < PER_SECOND; n += 1) {
    sending.push(send(`n${n}`));
    await sleep(1_000 / PER_SECOND);
  }
  const ids = await Promise.all(sending);
  await until(() => ids.every((id) => received.has(id)), { timeoutMs: 20_000 });
  expect(ids.map((id) => received.get(id))).toEqual(ids.map((_, n) => ({ test_option: `n${n}` })));
});
