import { pushStartMs } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type { WebhookEvent } from '@carillon/core/webhooks';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import {
  acknowledge,
  deliver,
  expire,
  RETENTION_MS,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { type Responder, status } from './receiver.ts';
import {
  APP,
  insertReportedPush,
  report,
  skipDelays,
  startWebhook,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

let database: StoreUnderTest;
const webhooks: WebhookUnderTest[] = [];
beforeAll(async () => {
  database = await startStore();
});
afterEach(async () => {
  for (const { id, receiver } of webhooks.splice(0)) {
    await receiver.stop();
    // An app has five at most.
    await database.store.webhooks.remove(APP, id);
  }
});
afterAll(() => database?.stop());

async function newWebhook(app?: string, events?: WebhookEvent[]): Promise<WebhookUnderTest> {
  const webhook = await startWebhook(database.store, app, events);
  webhooks.push(webhook);
  return webhook;
}

const HOUR_MS = 3_600_000;
/** Each delay is as long as its ceiling. */
const LONGEST = (): number => 1;

const findWebhook = ({ id }: WebhookUnderTest) => database.store.webhooks.find(id);
const setWebhook = ({ id }: WebhookUnderTest, fields: object, filter: object = {}) =>
  database.db
    .collection<{ _id: string }>('webhooks')
    .updateOne({ _id: id, ...filter }, { $set: fields });

/** Inserts a push to be reported to webhooks, and delivers it. */
async function deliverReported(
  recipients: number,
  reportedTo: readonly WebhookUnderTest[],
  finish = false,
): Promise<TestPush> {
  const ids = reportedTo.map(({ id }) => id);
  const push = await insertReportedPush(database, recipients, ids);
  await deliver(database.store, push, {}, { finish });
  return push;
}

/** Reports with all delays skipped until nothing is due. */
async function reportAll({ id }: WebhookUnderTest): Promise<void> {
  for (let round = 0; round < 20; round += 1) {
    await skipDelays(database, id);
    if ((await database.store.outbox.filterDue([id])).length === 0) return;
    await report(database.store, id);
  }
}

/** Returns the ids of a push's events: one for each recipient, and its end. */
const idsOf = (push: string, codes: readonly number[]) =>
  [...codes.map((code, position) => `${push}.${position}.${code}`), `${push}.finished`].sort();

test('events are signed, in requests of at most 500, each with the id of its body', async () => {
  const webhook = await newWebhook(APP);
  const push = await insertReportedPush(database, 700, [webhook.id]);
  const [failed = ''] = push.tokens;
  const outcomes = { [failed]: failureCode('inbox-full') };
  await deliver(database.store, push, outcomes, { finish: true });
  const result = await report(database.store, webhook.id);
  expect(result).toMatchObject({ requests: 2, events: 701, end: 'reported', app: APP });
  const { requests, forged } = webhook.receiver;
  expect(forged).toBe(0);
  expect(requests.map(({ events }) => events.length)).toEqual([500, 201]);
  expect(requests[0]?.events[0]).toEqual({
    id: `${push.id}.0.${failureCode('inbox-full')}`,
    type: 'recipient.failed',
    data: { push: push.id, token: failed, channel: 'mqtt', reason: 'inbox-full', final: true },
  });
  expect(requests[1]?.events.at(-1)).toMatchObject({
    type: 'push.finished',
    data: { push: push.id, state: 'finished', outcomes: { failed: 1, delivered: 699 } },
  });
});

test('the receipt of a device that was offline is reported with its time', async () => {
  const webhook = await newWebhook(APP);
  const push = await insertReportedPush(database, 1, [webhook.id]);
  const [token = ''] = push.tokens;
  await deliver(database.store, push, { [token]: OUTCOMES.inbox });
  await acknowledge(database, push, token);
  const receivedAt = new Date(pushStartMs(push.id) + 90_000);
  await database.pushes.updateOne(
    { _id: push.id },
    { $set: { 'work.gotAt': { 0: { 0: receivedAt } } } },
  );
  await report(database.store, webhook.id);
  expect(webhook.receiver.requests[0]?.events[0]).toMatchObject({
    type: 'recipient.delivered',
    data: { push: push.id, token, milliseconds: 90_000 },
  });
});

test('a recipient whose push FCM accepted after MQTT had no receipt is reported with that channel', async () => {
  const webhook = await newWebhook(APP, ['recipient.sent', 'recipient.failed']);
  const push = await insertReportedPush(database, 2, [webhook.id]);
  const [sent = '', failed = ''] = push.tokens;
  const outcomes = { [sent]: OUTCOMES.sent, [failed]: failureCode('inbox-full') };
  await deliver(database.store, push, outcomes);
  await report(database.store, webhook.id);
  const channels = webhook.receiver.requests[0]?.events.map(({ data }) => data.channel);
  expect(channels).toEqual(['fcm', 'mqtt']);
});

test('the end of a push is reported with the state that the API returns', async () => {
  const webhook = await newWebhook(APP, ['push.finished']);
  const { pushCompletion } = database.store;
  const [expired, deleted, finished] = await Promise.all(
    Array.from({ length: 3 }, () => insertReportedPush(database, 1, [webhook.id])),
  );
  if (!expired || !deleted || !finished) throw new Error('not inserted');
  await expire(database, expired);
  await pushCompletion.markDeleted(APP, deleted.id);
  await deliver(database.store, finished, {});
  for (const { id } of [expired, deleted, finished])
    await pushCompletion.completeIfDone(id, RETENTION_MS);
  await reportAll(webhook);
  const events = webhook.receiver.requests.flatMap((request) => request.events);
  expect(Object.fromEntries(events.map(({ data }) => [data.push, data.state]))).toEqual({
    [expired.id]: 'expired',
    [deleted.id]: 'deleted',
    [finished.id]: 'finished',
  });
});

test('a device that is uninstalled twice has two events with ids of their own', async () => {
  const webhook = await newWebhook(undefined, ['device.uninstalled']);
  const { store } = database;
  const { app = '' } = (await store.webhooks.find(webhook.id)) ?? {};
  await store.knownWebhooks.refresh();
  const address = { channel: 'fcm', address: 'fcm1' } as const;
  const { token } = await store.devices.register(app, 'android', address);
  const lastSeenAt = new Date(Date.now() + HOUR_MS);
  for (const _ of ['first', 'again']) {
    await store.devices.flagGone(app, [
      { token, address: 'fcm1', flag: 'uninstalled', lastSeenAt },
    ]);
    await reportAll(webhook);
    await database.db
      .collection<{ _id: string }>('devices')
      .updateOne({ _id: token }, { $unset: { uninstalled: true } });
  }
  const ids = webhook.reported();
  expect(ids).toHaveLength(2);
  expect(new Set(ids).size).toBe(2);
});

test('events of many pushes share a request, and only the wanted ones are sent', async () => {
  const webhook = await newWebhook(APP, ['recipient.failed']);
  for (let n = 0; n < 5; n += 1) {
    const push = await insertReportedPush(database, 2, [webhook.id]);
    const outcomes = { [push.tokens[0] ?? '']: failureCode('inbox-full') };
    await deliver(database.store, push, outcomes, { finish: true });
  }
  expect(await report(database.store, webhook.id)).toMatchObject({ requests: 1, events: 5 });
  expect(await database.store.outbox.countPending(webhook.id, 10)).toBe(0);
});

test.each<[string, Responder]>([
  ['responds with 500', status(500)],
  ['responds with 429', status(429, { 'retry-after': '1800' })],
  ['redirects', status(302, { location: 'http://127.0.0.1:1/' })],
  ['hangs', () => undefined],
])(
  'a receiver that %s gets every event once it works, with the same ids, and delays no other',
  async (_what, responder) => {
    const [broken, working] = [await newWebhook(), await newWebhook()];
    broken.receiver.respondWith(responder);
    const push = await deliverReported(3, [broken, working], true);
    const expected = idsOf(push.id, [1, 1, 1]);
    const [failed] = await Promise.all([
      report(database.store, broken.id, { deadlineMs: 400 }),
      report(database.store, working.id),
    ]);
    expect(failed).toMatchObject({ requests: 1, events: 0, end: 'failed' });
    expect(working.reported().sort()).toEqual(expected);
    // The webhook waits, here for an hour: a job that runs too early sends nothing.
    const retryAt = new Date(Date.now() + HOUR_MS);
    const waits = await setWebhook(broken, { retryAt }, { retryAt: { $exists: true } });
    expect(waits.matchedCount).toBe(1);
    expect(await report(database.store, broken.id)).toMatchObject({ requests: 0 });
    broken.receiver.requests.length = 0;
    broken.receiver.respondWith(status(204));
    await reportAll(broken);
    expect(broken.reported().sort()).toEqual(expected);
    expect(broken.receiver.forged).toBe(0);
    expect(await findWebhook(broken)).not.toHaveProperty('failures');
  },
);

test('a request that is repeated has the same id and body', async () => {
  const webhook = await newWebhook();
  webhook.receiver.respondWith(status(500));
  const push = await insertReportedPush(database, 1, [webhook.id]);
  await deliver(database.store, push, { [push.tokens[0] ?? '']: OUTCOMES.sent });
  for (const _ of ['first', 'again']) {
    await skipDelays(database, webhook.id);
    await report(database.store, webhook.id);
  }
  const [first, again] = webhook.receiver.requests;
  expect(again).toEqual(first);
});

test('Retry-After is honoured, and failures delay further requests up to an hour', async () => {
  const webhook = await newWebhook();
  webhook.receiver.respondWith(status(429, { 'retry-after': '1800' }));
  await deliverReported(1, [webhook]);
  await report(database.store, webhook.id);
  const { retryAt } = (await findWebhook(webhook)) ?? {};
  expect((retryAt?.getTime() ?? 0) - Date.now()).toBeGreaterThan(1_700_000);
});

test('a receiver that is unavailable for an hour gets every event, also those from meanwhile', async () => {
  const webhook = await newWebhook();
  webhook.receiver.respondWith(status(503));
  const expected: string[] = [];
  let awayMs = 0;
  while (awayMs < HOUR_MS) {
    const push = await deliverReported(2, [webhook], true);
    expected.push(...idsOf(push.id, [1, 1]));
    await report(database.store, webhook.id, { random: LONGEST });
    const { retryAt, last } = (await findWebhook(webhook)) ?? {};
    awayMs += Number(retryAt) - Number(last?.at);
    // As if that time had passed.
    await skipDelays(database, webhook.id);
  }
  // 1 + 2 + 4 … seconds, not one each second.
  expect(webhook.receiver.requests).toHaveLength(12);
  expect(await findWebhook(webhook)).toMatchObject({ failures: 12 });
  webhook.receiver.requests.length = 0;
  webhook.receiver.respondWith(status(200));
  await reportAll(webhook);
  expect(webhook.reported().sort()).toEqual(expected.sort());
});

test('410 turns a webhook off, and so do five days of failures', async () => {
  const [gone, failing] = [await newWebhook(), await newWebhook()];
  gone.receiver.respondWith(status(410));
  failing.receiver.respondWith(status(500));
  await deliverReported(1, [gone, failing]);
  await report(database.store, failing.id);
  const failingSince = new Date(Date.now() - 5 * 86_400_000 - 1_000);
  await setWebhook(failing, { failingSince });
  await skipDelays(database, failing.id);
  expect(await report(database.store, gone.id)).toMatchObject({ end: 'off', answer: 410 });
  expect(await report(database.store, failing.id)).toMatchObject({ end: 'off', answer: 500 });
  const found = await Promise.all([gone, failing].map(findWebhook));
  expect(found.map((one) => one?.off?.reason)).toEqual(['gone', 'failing']);
  expect(await report(database.store, gone.id)).toMatchObject({ requests: 0, end: 'off' });
});

test('two failures with days between them do not turn a webhook off', async () => {
  const webhook = await newWebhook();
  webhook.receiver.respondWith(status(500));
  await deliverReported(1, [webhook]);
  await report(database.store, webhook.id);
  const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000);
  const failed = { failingSince: daysAgo(6), failedAt: daysAgo(3), 'last.at': daysAgo(3) };
  await setWebhook(webhook, failed);
  await skipDelays(database, webhook.id);
  expect(await report(database.store, webhook.id)).toMatchObject({ end: 'failed', answer: 500 });
  const found = await findWebhook(webhook);
  expect(found?.off).toBeUndefined();
  expect(found?.failingSince?.getTime()).toBeGreaterThan(daysAgo(1).getTime());
});

test('a failed test event is shown, and is no failure of the webhook', async () => {
  const webhook = await newWebhook(APP);
  webhook.receiver.respondWith(status(500));
  await deliverReported(1, [webhook]);
  await report(database.store, webhook.id, { random: LONGEST });
  const readFailures = async () => {
    const found = await findWebhook(webhook);
    const { failures, failingSince, failedAt, retryAt, last } = found ?? {};
    return { failures: { failures, failingSince, failedAt, retryAt }, last };
  };
  const before = await readFailures();
  expect(before.failures.failures).toBe(1);
  webhook.receiver.respondWith(status(502));
  await database.store.webhooks.requestTest(APP, webhook.id);
  expect(await report(database.store, webhook.id)).toMatchObject({ end: 'failed', answer: 502 });
  // It does not wait for the retry of the events.
  expect(webhook.receiver.requests.at(-1)?.events.map(({ type }) => type)).toEqual(['test']);
  const after = await readFailures();
  expect(after.failures).toEqual(before.failures);
  expect(after.last).toMatchObject({ status: 502 });
});

test('the response to a test event is recorded right after another one', async () => {
  const webhook = await newWebhook(APP);
  for (const code of [200, 202]) {
    webhook.receiver.respondWith(status(code));
    await database.store.webhooks.requestTest(APP, webhook.id);
    await report(database.store, webhook.id);
    const found = await findWebhook(webhook);
    expect(found?.last).toMatchObject({ status: code });
  }
});
