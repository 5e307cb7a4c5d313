import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { type Receiver, startReceiver } from '../../packages/webhooks/test/receiver.ts';
import { webhookEventData, webhookEvents } from '../../services/api/src/webhooks/schema.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant, withStore } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

interface View {
  id: string;
  host: string;
  events: string[];
  state: string;
  last?: { status?: number };
}

const SECRET_PATH = 'path-with-a-secret';

let stack: SharedStack;
let receiver: Receiver;
let webhook: View;
let secret: string;
let other: TestTenant;
beforeAll(async () => {
  stack = await useSharedStack();
  other = await createTestTenant(stack);
  const url = `http://127.0.0.1:${await freePort()}/${SECRET_PATH}`;
  const { json } = await stack.api<{ webhook: View; secret: string }>('POST', '/webhooks', { url });
  ({ webhook, secret } = json);
  receiver = await startReceiver(secret, Number(new URL(url).port));
  await until(isKnownEverywhere, { what: 'a webhook that all processes know' });
});
afterAll(() => receiver?.stop());

/** Checks whether each API process knows the webhook, by the events of devices that register over many connections. */
async function isKnownEverywhere(): Promise<boolean> {
  const registrations = Array.from({ length: 12 }, () => registerDevice(stack.dev));
  const tokens = (await Promise.all(registrations)).map(({ token }) => token);
  const haveEvents = () => tokens.every((token) => listTypes(token).length > 0);
  const areKnown = await until(haveEvents, { timeoutMs: 3_000 }).catch(() => false);
  await Promise.all(tokens.map((token) => stack.api('DELETE', `/devices/${token}`)));
  return areKnown;
}

const listTypes = (about: string) =>
  receiver.requests
    .flatMap(({ events }) => events)
    .filter(({ data }) => data.push === about || data.token === about)
    .map(({ type }) => type);
const getWebhook = async () =>
  (await stack.api<{ webhooks: View[] }>('GET', '/webhooks')).json.webhooks[0];

test('a push to a connected device: the delivery and the end, signed', async () => {
  const device = await newMqttDevice(stack.dev);
  await device.connect();
  const { id } = await send(stack, device.token);
  await until(() => listTypes(id).includes('push.finished'));
  expect(listTypes(id).sort()).toEqual(['push.finished', 'recipient.delivered']);
  expect(receiver.forged).toBe(0);
  await device.disconnect();
});

test('a push to a device that connects later, and a deletion', async () => {
  const { token } = await registerDevice(stack.dev);
  const { id } = await send(stack, token);
  await stack.api('DELETE', `/pushes/${id}`);
  await until(() => listTypes(id).length === 2);
  expect(listTypes(id).sort()).toEqual(['push.finished', 'recipient.deleted']);
});

test('a later receipt is reported when it arrives', async () => {
  const device = await newMqttDevice(stack.dev);
  const { id } = await send(stack, device.token);
  await device.connect();
  await until(() => listTypes(id).includes('recipient.delivered'));
  await device.disconnect();
});

test('the address and the secret are shown nowhere, and a test returns the response', async () => {
  await stack.api('POST', `/webhooks/${webhook.id}/test`);
  await until(() => receiver.requests.some(({ events }) => events[0]?.type === 'test'));
  const shown = await until(async () => {
    const view = await getWebhook();
    return view?.last?.status === 200 ? view : undefined;
  });
  expect(shown).toMatchObject({ id: webhook.id, state: 'on' });
  const stored = await withStore(stack, (store) => store.webhooks.find(webhook.id));
  for (const text of [
    JSON.stringify(shown),
    JSON.stringify(stored),
    stack.readLog('delivery-worker'),
  ]) {
    expect(text).not.toContain(SECRET_PATH);
    expect(text).not.toContain(secret);
  }
});

test('all requests match the reference', () => {
  const types = new Set<string>();
  for (const { body } of receiver.requests) {
    const { events } = webhookEvents.parse(JSON.parse(body));
    for (const { type, data } of events) {
      types.add(type);
      expect(Object.keys(webhookEventData.shape)).toEqual(
        expect.arrayContaining(Object.keys(data)),
      );
    }
  }
  expect([...types]).toEqual(
    expect.arrayContaining(['push.finished', 'recipient.delivered', 'device.registered', 'test']),
  );
});

test("another app's webhook appears absent", async () => {
  expect((await other.api<{ webhooks: View[] }>('GET', '/webhooks')).json.webhooks).toEqual([]);
  const range = { from: 1, to: 2 };
  const calls: [string, string, object?][] = [
    ['PATCH', '', { url: 'https://other.example/', events: ['push.finished'] }],
    ['DELETE', ''],
    ['POST', '/rotate'],
    ['POST', '/test'],
    ['POST', '/off'],
    ['POST', '/on'],
    ['POST', '/replay', range],
  ];
  for (const [method, path, body] of calls)
    expectApiError(
      await other.api(method, `/webhooks/${webhook.id}${path}`, body),
      'INVALID_WEBHOOK_ID',
    );
  expect(await getWebhook()).toMatchObject({ state: 'on' });
});

test('a webhook is edited: its events and its address; invalid input changes nothing', async () => {
  const before = await getWebhook();
  const edit = (change: object) =>
    stack.api<{ webhook: View }>('PATCH', `/webhooks/${webhook.id}`, change);
  expectApiError(await edit({ url: 7, events: ['recipient.deleted'] }), 'INVALID_PARAM');
  expect(await getWebhook()).toEqual(before);
  const { json } = await edit({ events: ['recipient.deleted'] });
  expect(json.webhook).toMatchObject({ host: before?.host, events: ['recipient.deleted'] });
  const moved = await startReceiver(secret);
  try {
    await edit({ url: moved.url });
    expect(await getWebhook()).toMatchObject({
      host: new URL(moved.url).host,
      events: ['recipient.deleted'],
    });
    const { token } = await registerDevice(stack.dev);
    const { id } = await send(stack, token);
    await stack.api('DELETE', `/pushes/${id}`);
    const listMoved = () => moved.requests.flatMap(({ events }) => events);
    await until(() => listMoved().some(({ data }) => data.push === id));
    expect(new Set(listMoved().map(({ type }) => type))).toEqual(new Set(['recipient.deleted']));
    expect(moved.forged).toBe(0);
    expect(listTypes(id)).toEqual([]);
  } finally {
    await moved.stop();
  }
});

test('a disabled webhook gets no event, and a deleted one is gone', async () => {
  await stack.api('POST', `/webhooks/${webhook.id}/off`);
  expect(await getWebhook()).toMatchObject({ state: 'off', reason: 'operator' });
  await stack.api('POST', `/webhooks/${webhook.id}/on`);
  expect(await getWebhook()).toMatchObject({ state: 'on' });
  await stack.api('DELETE', `/webhooks/${webhook.id}`);
  expect(await getWebhook()).toBeUndefined();
});
