import { failureCode } from '@carillon/core/outcomes';
import type { WebhookEvent } from '@carillon/core/webhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { deliver, type StoreUnderTest, startStore } from '../../store/test/store-under-test.ts';
import { KEPT_REQUESTS, type WebhookRequestDocument } from '../src/requests.ts';
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
let webhook: WebhookUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterEach(async () => {
  await webhook.receiver.stop();
  await database.store.webhooks.remove(APP, webhook.id);
});
afterAll(() => database?.stop());

async function newWebhook(events?: WebhookEvent[]): Promise<void> {
  webhook = await startWebhook(database.store, APP, events);
}

const respond =
  (code: number, body: string | Buffer): Responder =>
  (_request, response) =>
    response.writeHead(code).end(body);

async function sendTestEvent(options?: Parameters<typeof report>[2]): Promise<void> {
  await database.store.webhooks.requestTest(APP, webhook.id);
  await report(database.store, webhook.id, options);
}

/** Lists the recorded requests, the newest first. */
const listRequests = () => database.store.webhookRequests.list(webhook.id);
const countStored = () =>
  database.db.collection('webhook_requests').countDocuments({ webhook: webhook.id });

test('of 130 requests the last hundred are listed in order, each with status and answer', async () => {
  await newWebhook();
  for (let n = 0; n < 130; n += 1) {
    webhook.receiver.respondWith(respond(n % 2 === 0 ? 200 : 500, `answer ${n}`));
    await sendTestEvent();
  }
  const listed = await listRequests();
  expect(listed.map(({ status: code, answer }) => [code, answer])).toEqual(
    Array.from({ length: 100 }, (_, n) => [n % 2 === 0 ? 500 : 200, `answer ${129 - n}`]),
  );
  expect(listed[0]).toMatchObject({
    types: [{ type: 'test', count: 1 }],
    bytes: webhook.receiver.requests.at(-1)?.body.length,
    milliseconds: expect.any(Number),
  });
});

test('MongoDB keeps at most twice as many of a webhook as are listed, however many are sent', async () => {
  await newWebhook();
  await sendTestEvent();
  const [one] = await listRequests();
  for (let n = 0; n < 40; n += 1) {
    const ids = Array.from({ length: 20 }, (_, i) => `f${n * 20 + i + 1_000}`);
    const documents = ids.map((_id) => ({ ...one, _id })) as WebhookRequestDocument[];
    await database.store.webhookRequests.record(webhook.id, documents);
    expect(await countStored()).toBeLessThanOrEqual(2 * KEPT_REQUESTS);
  }
  expect((await listRequests()).map(({ _id }) => _id)).toEqual(
    Array.from({ length: KEPT_REQUESTS }, (_, n) => `f${1_799 - n}`),
  );
});

test.each<[string, Responder, object]>([
  ['a megabyte', respond(200, 'x'.repeat(1_000_000)), { answer: 'x'.repeat(1_024) }],
  ['a character that is cut', respond(200, `${'x'.repeat(1_023)}é`), { answer: 'x'.repeat(1_023) }],
  ['bytes that are no text', respond(500, Buffer.from([0x61, 0xff, 0x62])), { answer: 'a\ufffdb' }],
  [
    'control characters',
    respond(400, 'a\0\u001b[2J\r\n\tb\u202ec\u009b'),
    { answer: 'a[2J\n\tbc' },
  ],
  ['HTML', respond(404, '<script>alert(1)</script>'), { answer: '<script>alert(1)</script>' }],
  ['no body', status(204), { status: 204 }],
])(
  'of an answer with %s the first 1,024 bytes are kept as text',
  async (_what, responder, kept) => {
    await newWebhook();
    webhook.receiver.respondWith(responder);
    await sendTestEvent();
    const [request] = await listRequests();
    expect(request).toMatchObject(kept);
    expect(Object.keys(request ?? {}).includes('answer')).toBe('answer' in kept);
  },
);

test('a receiver that hangs is recorded with the error', async () => {
  await newWebhook();
  webhook.receiver.respondWith(() => undefined);
  await sendTestEvent({ deadlineMs: 400 });
  expect(await listRequests()).toMatchObject([{ error: 'ETIMEDOUT' }]);
});

test('an answer that does not end delays nothing, and is not kept', async () => {
  await newWebhook();
  webhook.receiver.respondWith((_request, response) => response.writeHead(200).write('a'));
  await sendTestEvent();
  const [request] = await listRequests();
  expect(request).toMatchObject({ status: 200 });
  expect(request).not.toHaveProperty('answer');
});

test('a request that can not be recorded is reported as any other', async () => {
  await newWebhook();
  await sendTestEvent();
  const push = await insertReportedPush(database, 2, [webhook.id]);
  await deliver(database.store, push, {}, { finish: true });
  const errors: unknown[] = [];
  const refuse = (validator: object) =>
    database.db.command({ collMod: 'webhook_requests', validator });
  await refuse({ never: true });
  const onUnrecorded = (error: unknown) => void errors.push(error);
  const result = await report(database.store, webhook.id, { onUnrecorded });
  await refuse({});
  expect([result, errors.length]).toMatchObject([{ requests: 1, events: 3, end: 'reported' }, 1]);
  expect(await database.store.outbox.countPending(webhook.id, 10)).toBe(0);
});

test('a repeated request has the number of its attempt', async () => {
  await newWebhook();
  webhook.receiver.respondWith(status(500));
  const push = await insertReportedPush(database, 1, [webhook.id]);
  await deliver(database.store, push, {}, { finish: true });
  for (const _ of '123') {
    await skipDelays(database, webhook.id);
    await report(database.store, webhook.id);
  }
  const listed = await listRequests();
  expect(listed.map(({ attempt }) => attempt)).toEqual([3, 2, 1]);
});

test('a webhook that is removed leaves no request', async () => {
  await newWebhook();
  await sendTestEvent();
  expect(await countStored()).toBe(1);
  await database.store.webhooks.remove(APP, webhook.id);
  expect(await countStored()).toBe(0);
});

describe('a request that is sent again', () => {
  /** Sends a request again, and returns what the receiver got. */
  async function resend(request: WebhookRequestDocument | undefined) {
    webhook.receiver.requests.length = 0;
    await database.store.webhooks.requestResend(APP, webhook.id, request?._id ?? '');
    const result = await report(database.store, webhook.id);
    expect(webhook.receiver.forged).toBe(0);
    return { result, received: [...webhook.receiver.requests] };
  }

  test('has the same events, ids and body, and a valid signature', async () => {
    await newWebhook();
    const embedded = await insertReportedPush(database, 3, [webhook.id]);
    const [failed = ''] = embedded.tokens;
    await deliver(
      database.store,
      embedded,
      { [failed]: failureCode('inbox-full') },
      { finish: true },
    );
    await report(database.store, webhook.id);
    const sent = [...webhook.receiver.requests];
    expect(sent[0]?.events).toHaveLength(4);
    const [request] = await listRequests();
    expect((await resend(request)).received).toEqual(sent);
    const [again] = await listRequests();
    expect(again).toMatchObject({ resendOf: request?._id, status: 200, types: request?.types });
    // Once: another run sends nothing.
    expect(await report(database.store, webhook.id)).toMatchObject({ requests: 0 });
  });

  test('may be one about devices, or a test event', async () => {
    await newWebhook(['device.registered', 'device.deleted']);
    await database.store.knownWebhooks.refresh();
    const { token } = await database.store.devices.register(APP, 'android');
    await report(database.store, webhook.id);
    await sendTestEvent();
    const sent = [...webhook.receiver.requests];
    expect(sent[0]?.events).toMatchObject([{ type: 'device.registered', data: { token } }]);
    const [ofTest, ofDevice] = await listRequests();
    expect((await resend(ofDevice)).received).toEqual(sent.slice(0, 1));
    expect((await resend(ofTest)).received).toEqual(sent.slice(1));
  });

  test('has no event of a push that is gone', async () => {
    await newWebhook(['push.finished']);
    const pushes = [];
    for (const _ of '12') {
      const push = await insertReportedPush(database, 1, [webhook.id]);
      await deliver(database.store, push, {}, { finish: true });
      pushes.push(push);
    }
    await report(database.store, webhook.id);
    const [request] = await listRequests();
    await database.pushes.deleteOne({ _id: pushes[0]?.id ?? '' });
    const { received } = await resend(request);
    expect(received.flatMap(({ events }) => events.map(({ data }) => data.push))).toEqual([
      pushes[1]?.id,
    ]);
    await database.pushes.deleteOne({ _id: pushes[1]?.id ?? '' });
    expect(await resend(request)).toMatchObject({ result: { requests: 0 }, received: [] });
  });

  test('does not wait for a retry, and its failure is none of the webhook', async () => {
    await newWebhook();
    await sendTestEvent();
    const [request] = await listRequests();
    webhook.receiver.respondWith(status(500));
    const push = await insertReportedPush(database, 1, [webhook.id]);
    await deliver(database.store, push, {}, { finish: true });
    await report(database.store, webhook.id, { random: () => 1 });
    // The events are due, the webhook waits.
    await skipDelays(database, webhook.id);
    const hour = { $set: { retryAt: new Date(Date.now() + 3_600_000) } };
    const webhooks = database.db.collection<{ _id: string }>('webhooks');
    await webhooks.updateOne({ _id: webhook.id }, hour);
    const before = await database.store.webhooks.find(webhook.id);
    const { received } = await resend(request);
    expect(received.map(({ events }) => events.map(({ type }) => type))).toEqual([['test']]);
    const after = await database.store.webhooks.find(webhook.id);
    expect(after).toEqual({ ...before, last: after?.last });
    // Nor does a request that is not known end the wait.
    expect((await resend(undefined)).result).toMatchObject({ requests: 0 });
  });

  test('waits while another one does, so that many clicks are one request', async () => {
    await newWebhook();
    await sendTestEvent();
    const [request] = await listRequests();
    const { webhooks } = database.store;
    const ask = () => webhooks.requestResend(APP, webhook.id, request?._id ?? '');
    expect(await Promise.all([ask(), ask(), ask()])).toEqual(expect.arrayContaining([false]));
    webhook.receiver.requests.length = 0;
    await report(database.store, webhook.id);
    expect(webhook.receiver.requests).toHaveLength(1);
    expect(await ask()).toBe(true);
  });
});
