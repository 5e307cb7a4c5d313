import { newObjectId } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startWorkers } from '../../../services/delivery-worker/src/workers.ts';
import { createWebhookTick } from '../../../services/scheduler/src/webhooks.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis, type TestServer } from '../../presence/test/start-server.ts';
import { createProducers, type Producers } from '../../queue/src/producers.ts';
import type { QueueWorker } from '../../queue/src/workers.ts';
import {
  deliver,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { createAddressCircuits, MAX_IN_FLIGHT } from '../src/address-circuits.ts';
import type { Responder } from './receiver.ts';
import {
  addWebhook,
  insertReportedPush,
  report,
  startWebhook,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

/** Longer than the test: a request to a receiver that hangs does not end. */
const DEADLINE_MS = 120_000;
const DEAD = 20;
/** More than the webhooks that a process reports to at once. */
const AT_ONE_ADDRESS = 210;
const WEBHOOKS_PER_PUSH = 50;
const HANG: Responder = () => undefined;

let database: StoreUnderTest;
let redis: TestServer & { url: string };
let producers: Producers;
let worker: QueueWorker | undefined;
const started: WebhookUnderTest[] = [];
/** On a busy machine Redis responds late; the next tick compensates for it. */
const ignore = (): void => undefined;
beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  producers = createProducers({ url: redis.url }, ignore);
});
afterAll(async () => {
  // Ends the requests, and with them the jobs.
  await Promise.all(started.map(({ receiver }) => receiver.stop()));
  await worker?.stop();
  await producers?.close();
  await database?.stop();
  await redis?.stop();
});

async function start(): Promise<WebhookUnderTest> {
  const webhook = await startWebhook(database.store);
  started.push(webhook);
  return webhook;
}

/** Inserts pushes, a few webhooks each, so that something is due for every one. */
async function makeDue(webhooks: readonly WebhookUnderTest[]): Promise<TestPush[]> {
  const pushes: TestPush[] = [];
  for (let from = 0; from < webhooks.length; from += WEBHOOKS_PER_PUSH) {
    const some = webhooks.slice(from, from + WEBHOOKS_PER_PUSH).map(({ id }) => id);
    const push = await insertReportedPush(database, 1, some);
    await deliver(database.store, push, {}, { finish: true });
    pushes.push(push);
  }
  return pushes;
}

/** Starts the worker of the queue as a process does. */
function startWebhookWorker(): QueueWorker | undefined {
  const circuits = createAddressCircuits(() => performance.now(), Math.random);
  const unused = () => Promise.reject(new Error('the worker takes no such jobs'));
  const processors = {
    ...{ fanOut: unused, deliver: unused, checkCompletion: unused },
    ...{ recordActivity: unused, recordKeyUses: unused, redrive: unused },
    async reportToWebhook(id: string) {
      await report(database.store, id, { circuits, deadlineMs: DEADLINE_MS });
    },
  };
  const settings = { redis: { url: redis.url }, onError: ignore };
  return startWorkers(settings, processors, ['webhook'], 1)[0];
}

/** Runs the scheduler's tick until a condition holds. */
async function tickUntil(condition: () => boolean, what: string): Promise<void> {
  const { store } = database;
  const tick = createWebhookTick(store.knownWebhooks, store, producers);
  const tickAndCheck = async () => {
    await tick();
    return condition();
  };
  await until(tickAndCheck, { timeoutMs: 30_000, everyMs: 1_000, what });
}

test('a receiver gets its events despite dead ones, and one that hangs for more webhooks than slots', async () => {
  const dead: WebhookUnderTest[] = [];
  while (dead.length < DEAD) dead.push(await start());
  const slow = [await start()];
  const [first] = slow as [WebhookUnderTest];
  while (slow.length < AT_ONE_ADDRESS)
    slow.push(await addWebhook(database.store, newObjectId(), first));
  for (const { receiver } of [...dead, first]) receiver.respondWith(HANG);
  const victim = await start();
  await database.store.knownWebhooks.refresh();
  worker = startWebhookWorker();
  await makeDue(slow);
  await tickUntil(
    () => first.receiver.requests.length >= MAX_IN_FLIGHT,
    'requests to the slow address',
  );
  // The jobs of the others wait behind those of the slow address.
  await makeDue(dead);
  await tickUntil(
    () => dead.every(({ receiver }) => receiver.requests.length === 1),
    'a request to each dead receiver',
  );
  const [push] = await makeDue([victim]);
  await tickUntil(() => victim.reported().length >= 2, 'events at the working receiver');
  expect(victim.reported().sort()).toEqual([`${push?.id}.0.1`, `${push?.id}.finished`]);
  expect(first.receiver.requests.length).toBe(MAX_IN_FLIGHT);
}, 120_000);
