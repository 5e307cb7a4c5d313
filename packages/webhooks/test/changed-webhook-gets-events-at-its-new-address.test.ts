import { SEVERAL } from '@carillon/core/circuit';
import { newObjectId } from '@carillon/core/ids';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  deliver,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { createAddressCircuits } from '../src/address-circuits.ts';
import { editWebhook } from '../src/manage-webhooks.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { type Receiver, type Responder, startReceiver, status } from './receiver.ts';
import {
  addWebhook,
  insertReportedPush,
  moveWebhook,
  report,
  skipDelays,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

const CUT: Responder = (_request, response) => response.socket?.destroy();
/** Longer than any test: a request hangs until the test responds. */
const LONG_MS = 120_000;
const FAILURES = 6;

let database: StoreUnderTest;
let app: string;
let webhook: WebhookUnderTest;
let previous: Receiver;
let next: Receiver;
const receivers: Receiver[] = [];
beforeAll(async () => {
  database = await startStore();
});
beforeEach(async () => {
  const secret = newWebhookSecret();
  previous = await startReceiver(secret);
  next = await startReceiver(secret);
  receivers.push(previous, next);
  app = newObjectId();
  webhook = await addWebhook(database.store, app, { secret, receiver: previous });
});
afterAll(async () => {
  await Promise.all(receivers.map((receiver) => receiver.stop()));
  await database?.stop();
});

/** Delivers a push to two devices, which is to be reported to the webhook. */
async function deliverReported(): Promise<TestPush> {
  const push = await insertReportedPush(database, 2, [webhook.id]);
  await deliver(database.store, push, {}, { finish: true });
  return push;
}

const idsOf = (...pushes: TestPush[]) =>
  pushes.flatMap(({ id }) => [`${id}.0.1`, `${id}.1.1`, `${id}.finished`]).sort();
const reportedTo = ({ requests }: Receiver) =>
  requests.flatMap(({ events }) => events.map(({ id }) => id)).sort();
const move = () => moveWebhook(database.store, app, webhook.id, next.url);

test('the new address gets events without waiting for the previous one, and none reported before', async () => {
  const circuits = createAddressCircuits(
    () => 0,
    () => 1,
  );
  await deliverReported();
  await report(database.store, webhook.id, { circuits });
  previous.respondWith(CUT);
  const failed = await deliverReported();
  // After some failures the delay of the failed request is longer than the test.
  for (let n = 0; n < FAILURES; n += 1) {
    await skipDelays(database, webhook.id);
    await report(database.store, webhook.id, { random: () => 1 });
  }
  for (let n = 0; n < SEVERAL; n += 1) {
    const permit = circuits.acquire(previous.url, { app, _id: `another ${n}` });
    if (permit.kind === 'permit') permit.end({ error: 'ECONNRESET' });
  }
  const waiting = await deliverReported();
  expect(await report(database.store, webhook.id, { circuits })).toMatchObject({ end: 'waiting' });
  await move();
  await report(database.store, webhook.id, { circuits });
  expect(reportedTo(next)).toEqual(idsOf(waiting));
  // The events of a failed request wait for its own retry.
  await skipDelays(database, webhook.id);
  await report(database.store, webhook.id, { circuits });
  expect(reportedTo(next)).toEqual(idsOf(failed, waiting));
  expect(next.forged).toBe(0);
});

test.each([
  ['410', status(410)],
  ['500', status(500)],
  ['no response', CUT],
])('the end of a request to the previous address (%s) is ignored', async (_what, responder) => {
  let respond = (): void => undefined;
  previous.respondWith((request, response) => {
    respond = () => responder(request, response);
  });
  const push = await deliverReported();
  const reporting = report(database.store, webhook.id, { deadlineMs: LONG_MS });
  await until(() => previous.requests.length === 1);
  await move();
  const moved = await database.store.webhooks.find(webhook.id);
  respond();
  await reporting;
  expect(await database.store.webhooks.find(webhook.id)).toEqual(moved);
  await skipDelays(database, webhook.id);
  await report(database.store, webhook.id);
  expect(reportedTo(next)).toEqual(idsOf(push));
});

test('a changed webhook gets the events that it has now, also of earlier pushes', async () => {
  const push = await deliverReported();
  const changed = await editWebhook(database.store, app, webhook.id, { events: ['push.finished'] });
  expect(changed).toMatchObject({ id: webhook.id, events: ['push.finished'] });
  await report(database.store, webhook.id);
  expect(reportedTo(previous)).toEqual([`${push.id}.finished`]);
  // Events that it did not have at the time are not reported later.
  await editWebhook(database.store, app, webhook.id, { events: ['recipient.delivered'] });
  const later = await deliverReported();
  await report(database.store, webhook.id);
  expect(reportedTo(previous).slice(1)).toEqual([`${later.id}.0.1`, `${later.id}.1.1`]);
});
