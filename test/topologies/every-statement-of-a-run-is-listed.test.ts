import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type Receiver,
  startReceiver,
} from '../../services/delivery-worker/test/webhooks/receiver.ts';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import {
  formatStatementReport,
  readStatementReport,
} from '../support/topologies/statement-records.ts';
import { until } from '../support/until.ts';

const REGISTERED = 2_500;
const REAL = 5;
const SERVICES = [
  ...['carillon-api', 'carillon-delivery-worker', 'carillon-scheduler', 'device-gateway'],
];

let folder: string;
let fixture: Fixture;
let receiver: Receiver;
beforeAll(async () => {
  folder = join(createTemporaryFolder(), 'statements');
  const env = { RECORD_STATEMENTS: folder };
  fixture = await openFixture({ registered: REGISTERED, real: REAL }, { env });
  await removeRateLimit(fixture.stack);
  receiver = await startReceiver('whsec_AAAA');
}, 120_000);
afterAll(async () => {
  await receiver?.stop();
  await fixture?.close();
});

const tokensOf = (count: number) => fixture.pool.tokens.slice(0, count);
const INBOX = { timeoutMs: 60_000 };

/** A push with a key to several batches, its repetition, and a push to a topic that the fan-out resolves. */
async function sendLarge(): Promise<void> {
  const { stack, mongo } = fixture;
  const body = JSON.stringify({ to: fixture.pool.tokens, data: { n: 1 } });
  const key = randomUUID();
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  expect((await pushWithIdempotencyKey(stack.dev, key, body)).text).toBe(first.text);
  const counts = { delivered: REAL, inbox: REGISTERED - REAL };
  await untilOutcomes(mongo, { id: first.json.id }, counts, INBOX);
  const toTopic = await sendPush(stack, await subscribePool(fixture, 'all'));
  await untilOutcomes(mongo, toTopic, counts, INBOX);
  await stack.api('GET', `/pushes/${first.json.id}`);
  await stack.api('GET', `/pushes/${first.json.id}/outcomes`);
  await stack.api('GET', `/pushes/${first.json.id}/recipients?limit=10`);
  expect((await stack.api('DELETE', `/pushes/${first.json.id}`)).status).toBe(200);
}

/** Pushes of one collapse key and a scheduled one to a device that connects later, and receipts of its inbox. */
async function sendToInbox(): Promise<void> {
  const { stack, mongo } = fixture;
  const device = await newMqttDevice(stack.dev);
  await stack.api('POST', '/topics/subscribe', { token: device.token, topics: ['news'] });
  for (const n of [1, 2]) await sendPush(stack, device.token, { collapse_key: 'one', data: { n } });
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const last = await sendPush(stack, '/topics/news', { schedule });
  await untilOutcomes(mongo, last, { inbox: 1 }, INBOX);
  await stack.api('GET', `/devices/${device.token}`);
  await device.connect();
  await device.waitFor(2, INBOX);
  await untilOutcomes(mongo, last, { delivered: 1 }, INBOX);
  await device.disconnect();
  await stack.api('POST', '/topics/unsubscribe', { token: device.token, topics: ['news'] });
}

/** A push that expires, and one of which all documents go. */
async function sendAndRemove(): Promise<void> {
  const { stack, mongo } = fixture;
  const { token } = await registerDevice(stack.dev);
  const push = await sendPush(stack, token, { time_to_live: 1 });
  await untilOutcomes(mongo, push, { expired: 1 }, INBOX);
  const pushes = mongo.db.collection<{ _id: string }>('pushes');
  await pushes.updateOne({ _id: push.id }, { $set: { purgeAt: new Date() } });
  await until(async () => (await pushes.findOne({ _id: push.id })) === null, INBOX);
  expect((await stack.api('DELETE', `/devices/${token}`)).status).toBe(200);
}

/** A webhook that gets the events of a push. */
async function sendWithWebhook(): Promise<void> {
  const { stack } = fixture;
  const url = `http://127.0.0.1:${receiver.port}/hook`;
  expect((await stack.api('POST', '/webhooks', { url })).status).toBe(200);
  const isReported = async () => {
    await sendPush(stack, tokensOf(REAL));
    // The receiver does not know the secret.
    return receiver.forged > 0;
  };
  await until(isReported, { timeoutMs: 60_000, everyMs: 500, what: 'a webhook' });
}

test('every statement of accepting, delivering, receiving, reporting and removing is listed', async () => {
  await sendLarge();
  await sendToInbox();
  await sendAndRemove();
  await sendWithWebhook();
  await fixture.stack.api('GET', '/topics');
  await fixture.stack.stop();
  const report = readStatementReport(folder);
  process.stdout.write(`${formatStatementReport(report)}\n`);
  expect(report.mistakes).toEqual([]);
  expect(report.services).toEqual(SERVICES);
  expect(report.scattered.length).toBeGreaterThan(10);
}, 300_000);
