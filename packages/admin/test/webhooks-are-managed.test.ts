import { newObjectId } from '@carillon/core/ids';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { parseSealingKeys } from '@carillon/core/sealing';
import { REPLAY_LIMITS } from '@carillon/webhooks/manage-webhooks';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { insertPush, newTokens } from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import { createAccount } from '../src/accounts.ts';
import { createApp } from '../src/apps.ts';
import {
  changeWebhook,
  createWebhook,
  listWebhookDetails,
  listWebhookRequests,
  MAX_PENDING_COUNTED,
  removeWebhook,
  renewWebhookSecret,
  replayPushes,
  requestTestEvent,
  resendRequest,
  turnWebhookOff,
  turnWebhookOn,
} from '../src/webhooks.ts';

const sealingKeys = parseSealingKeys(`1:${'a'.repeat(64)}`);
const ADDRESS = new URL('https://receiver.example/hook?token=secret');
const ALL_TIMES = { fromMs: 0, toMs: Date.now() + 3_600_000 };
const UNKNOWN = '0'.repeat(24);

const database = useStore();
const { store } = database;
let app: string;
beforeAll(async () => {
  app = await newApp();
});

async function newApp(): Promise<string> {
  const { id: account } = await createAccount(store, 'One', 'trial');
  const secrets = { pepper: 'p'.repeat(64), sealingKeys };
  return (await createApp(store, secrets, { name: 'One', account })).id;
}

test('before a delivery worker has run there is no key to seal with', async () => {
  const adding = createWebhook(store, app, ADDRESS);
  await expect(adding).rejects.toMatchObject({ code: 'BOX_KEY_MISSING' });
});

describe('with the key of a delivery worker', () => {
  let id: string;
  beforeAll(async () => {
    await store.webhooks.putBoxKey(boxKeyOf(sealingKeys));
    id = (await createWebhook(store, app, ADDRESS)).webhook.id;
  });

  const find = async () =>
    (await listWebhookDetails(store, app)).find((webhook) => webhook.id === id);

  test.each<[string, (ofApp: string, webhook: string) => Promise<unknown>]>([
    [
      'changeWebhook',
      (...of) => changeWebhook(store, ...of, { address: ADDRESS, events: ['push.finished'] }),
    ],
    ['renewWebhookSecret', (...of) => renewWebhookSecret(store, ...of)],
    ['requestTestEvent', (...of) => requestTestEvent(store, ...of)],
    ['listWebhookRequests', (...of) => listWebhookRequests(store, ...of)],
    ['resendRequest', (...of) => resendRequest(store, ...of, UNKNOWN)],
    ['replayPushes', (...of) => replayPushes(store, ...of, ALL_TIMES)],
    ['turnWebhookOff', (...of) => turnWebhookOff(store, ...of)],
    ['turnWebhookOn', (...of) => turnWebhookOn(store, ...of)],
    ['removeWebhook', (...of) => removeWebhook(store, ...of)],
  ])('%s: an unknown webhook and that of another app are absent', async (_name, call) => {
    const before = await find();
    const absent = { code: 'WEBHOOK_NOT_FOUND' };
    await expect(call(app, UNKNOWN)).rejects.toMatchObject(absent);
    await expect(call(await newApp(), id)).rejects.toMatchObject(absent);
    expect(await find()).toEqual(before);
  });

  test('a secret is renewed, and the end of the old one is returned', async () => {
    const secret = await renewWebhookSecret(store, app, id);
    expect(secret).toMatch(/^whsec_/);
    const [listed] = await listWebhookDetails(store, app);
    expect(Date.parse(listed?.previousSecretEndsAt ?? '')).toBeGreaterThan(Date.now());
    expect(JSON.stringify(listed)).not.toMatch(/hook|token|whsec_/);
  });

  test('events and the address are changed, each without the other', async () => {
    const { pending, ...before } = (await find()) ?? {};
    const events = ['recipient.failed', 'device.deleted'] as const;
    const first = await changeWebhook(store, app, id, { events });
    expect(first).toEqual({ ...before, events });
    const address = new URL('https://other.example/hook?token=secret');
    const second = await changeWebhook(store, app, id, { address });
    expect(second).toEqual({ ...first, host: 'other.example' });
    expect(await find()).toEqual({ ...second, pending });
  });

  test('a webhook that is off sends no test event', async () => {
    for (const _ of ['first', 'again']) await turnWebhookOff(store, app, id);
    expect(await find()).toMatchObject({ state: 'off', reason: 'operator' });
    const testing = requestTestEvent(store, app, id);
    await expect(testing).rejects.toMatchObject({ code: 'WEBHOOK_IS_OFF' });
    await turnWebhookOn(store, app, id);
    await requestTestEvent(store, app, id);
  });

  test('a request is sent again once it is known, its events are stored, and the webhook is on', async () => {
    const request = (_id: string, event: string, type: string) => ({
      ...{ _id, webhook: id, at: new Date(), status: 200, milliseconds: 12, bytes: 3 },
      ...{ events: [event], types: [{ type, count: 1 }], answer: 'ok' },
    });
    const test = request('b'.repeat(24), `${id}.test.1`, 'test');
    const ofPush = request('c'.repeat(24), `${UNKNOWN}.finished`, 'push.finished');
    await store.webhookRequests.record(id, [test, ofPush]);
    const [, listed] = await listWebhookRequests(store, app, id);
    expect(listed).toEqual({
      ...{ id: test._id, at: test.at.toISOString(), status: 200, milliseconds: 12, bytes: 3 },
      ...{ events: 1, types: test.types, answer: 'ok' },
    });
    const resend = (one: string) => resendRequest(store, app, id, one);
    await expect(resend(UNKNOWN)).rejects.toMatchObject({ code: 'REQUEST_NOT_FOUND' });
    await expect(resend(ofPush._id)).rejects.toMatchObject({ code: 'EVENTS_NOT_STORED' });
    await turnWebhookOff(store, app, id);
    await expect(resend(test._id)).rejects.toMatchObject({ code: 'WEBHOOK_IS_OFF' });
    await turnWebhookOn(store, app, id);
    await resend(test._id);
    await expect(resend(test._id)).rejects.toMatchObject({ code: 'RESEND_PENDING' });
    const other = (await createWebhook(store, app, ADDRESS)).webhook.id;
    const ofOther = resendRequest(store, app, other, test._id);
    await expect(ofOther).rejects.toMatchObject({ code: 'REQUEST_NOT_FOUND' });
    await removeWebhook(store, app, other);
  });

  test('a replay ends after its time limit and is continued, and the pushes it marks are pending', async () => {
    const other = await newApp();
    const { webhook } = await createWebhook(store, other, ADDRESS);
    const count = REPLAY_LIMITS.pushes + 1;
    await Promise.all(Array.from({ length: count }, () => insertPush(database, newTokens(1))));
    await database.pushes.updateMany({}, { $set: { app: other } });
    const replay = (range: object) =>
      replayPushes(store, other, webhook.id, { ...ALL_TIMES, ...range });
    const first = await replay({ maxMs: 0 });
    expect(first.pushes).toBeLessThan(count);
    const rest = await replay({ after: first.last });
    expect(rest).toEqual({ pushes: count - first.pushes });
    const [listed] = await listWebhookDetails(store, other);
    expect(listed).toMatchObject({ id: webhook.id, pending: MAX_PENDING_COUNTED });
  });

  test('an app has at most the permitted number of webhooks', async () => {
    const other = await newApp();
    const add = () => createWebhook(store, other, ADDRESS, ['push.finished']);
    for (const _ of '12345') await add();
    await expect(add()).rejects.toMatchObject({ code: 'WEBHOOK_LIMIT_REACHED' });
    await expect(createWebhook(store, newObjectId(), ADDRESS)).rejects.toMatchObject({
      code: 'APP_NOT_FOUND',
    });
  });

  test('a webhook is removed once', async () => {
    await removeWebhook(store, app, id);
    expect(await find()).toBeUndefined();
  });
});
