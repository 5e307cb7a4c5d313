import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { untilPending } from '../support/guarantees/status.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const ABSENT_TOKEN = 'ffffffffffffffffffffff';

let stack: SharedStack;
let other: TestTenant;
let device: MqttDevice;
let topic: string;
/** A device of the other tenant. */
let own: string;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  other = await createTestTenant(stack, { limit: null });
  own = (await createFleet(() => other.dev).offline()).token;
  topic = randomUUID();
  device = await fleet.offline();
  await stack.api('POST', '/topics/subscribe', { token: device.token, topics: [topic] });
});
afterEach(() => device.disconnect());

test.each<[where: string, kind: 'device' | 'topic', path: string, body: (id: string) => object]>([
  ['tokens', 'device', '/push', (token) => ({ tokens: [token], data: {} })],
  ['registration_ids', 'device', '/push', (token) => ({ registration_ids: [token], data: {} })],
  ['a scheduled push', 'device', '/push', (to) => ({ to, data: {}, schedule: inOneMinute() })],
  ['presence', 'device', '/devices/presence', (token) => ({ tokens: [own, token] })],
  ['a push to a topic', 'topic', '/push', (name) => ({ to: `/topics/${name}`, data: {} })],
])("another tenant's object appears absent in %s", async (_where, kind, path, body) => {
  const [ours, absent] = kind === 'topic' ? [topic, 'nobodys-topic'] : [device.token, ABSENT_TOKEN];
  const aboutOurs = await other.api('POST', path, body(ours));
  const aboutAbsent = await other.api('POST', path, body(absent));
  const { status, text, json } = aboutOurs;
  expect(status).toBe(aboutAbsent.status);
  expect(text.replaceAll(ours, absent)).toBe(aboutAbsent.text);
  if (path === '/push') expect(json.code).toBe('NO_RECIPIENTS');
  else expect(json.presence).toMatchObject([{ id: own }]);
});

test('a push of one tenant to a name that both use reaches its own device only', async () => {
  await other.api('POST', '/topics/subscribe', { token: own, topics: [topic] });
  const theirs = await sendPush(other, `/topics/${topic}`);
  expect(theirs.devices).toBe(1);
  await untilPending(other, theirs, [own]);
  await device.connect();
  const ours = await sendPush(stack, `/topics/${topic}`);
  await device.waitFor(1);
  expect(payloadsOf(device)).toEqual([ours.payload]);
  await other.api('POST', '/topics/unsubscribe', { token: own, topics: ['*'] });
  expect((await stack.api('GET', `/topics/${topic}`)).json.subscribers).toEqual([device.token]);
});

test('a push to both tenants names the foreign token as failed', async () => {
  const response = await other.api('POST', '/push', { to: [own, device.token], data: {} });
  expect(response).toMatchObject({
    status: 200,
    json: { info: { devices: 1, failed: [device.token] } },
  });
});

test('a device of one tenant is not authorised by the credentials of another', async () => {
  const { auth: foreign } = await createFleet(() => other.dev).offline();
  const send = (auth: string) =>
    stack.api('POST', '/devices/auth', { token: device.token, auth, sdk: 10_000 });
  expect((await send(device.auth)).status).toBe(200);
  expect((await send(foreign)).status).not.toBe(200);
});

function inOneMinute(): number {
  return Math.floor(Date.now() / 1_000) + 60;
}
