import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { sendPush } from '../support/faults/pushes.ts';
import { createTenant, type Tenant } from '../support/guarantees/create-tenant.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { untilPending } from '../support/guarantees/status.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const ABSENT_TOKEN = 'ffffffffffffffffffffff';

let stack: SharedStack;
let other: Tenant;
let device: MqttDevice;
let topic: string;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  other = await createTenant(stack);
  topic = randomUUID();
  device = await fleet.offline();
  await stack.api('POST', '/topics/subscribe', { token: device.token, topics: [topic] });
});
afterEach(() => device.disconnect());

/** Expects that the other tenant gets the same response for our resource and for one that does not exist. */
async function expectSameResponse(
  sendRequest: (id: string) => RequestParts,
  ours: string,
  absent: string,
) {
  const one = sendRequest(ours);
  const two = sendRequest(absent);
  const aboutOurs = await other.api('POST', one.path, one.body);
  const aboutAbsent = await other.api('POST', two.path, two.body);
  expect({ status: aboutOurs.status, text: aboutOurs.text.replaceAll(ours, absent) }).toEqual({
    status: aboutAbsent.status,
    text: aboutAbsent.text,
  });
  return aboutOurs;
}

interface RequestParts {
  path: string;
  body?: unknown;
}

describe("another tenant's token appears absent", () => {
  test.each([
    ['tokens', (one: string) => push({ tokens: [one] })],
    ['registration_ids', (one: string) => push({ registration_ids: [one] })],
    ['a scheduled push', (to: string) => push({ to, schedule: inOneHour() })],
  ])('in %s', async (_where, sendRequest) => {
    const { json } = await expectSameResponse(sendRequest, device.token, ABSENT_TOKEN);
    expect(json.code).toBe('NO_RECIPIENTS');
  });

  test('presence of it among its own devices', async () => {
    const own = await registerDevice();
    const sendRequest = (token: string) => presence([own, token]);
    const { json } = await expectSameResponse(sendRequest, device.token, ABSENT_TOKEN);
    expect(json.presence).toMatchObject([{ id: own }]);
  });
});

describe("another tenant's topic appears absent", () => {
  test('in a push', async () => {
    const sendRequest = (name: string) => push({ to: `/topics/${name}` });
    const { json } = await expectSameResponse(sendRequest, topic, 'nobodys-topic');
    expect(json.code).toBe('NO_RECIPIENTS');
  });

  test('a push of one tenant to a name that both use reaches its own device only', async () => {
    const own = await registerDevice();
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
});

test('a push to both tenants names the foreign token as failed', async () => {
  const own = await registerDevice();
  const response = await other.api('POST', '/push', { to: [own, device.token], data: {} });
  expect(response).toMatchObject({
    status: 200,
    json: { info: { devices: 1, failed: [device.token] } },
  });
});

test('a device of one tenant is not authorised by the credentials of another', async () => {
  const own = await createFleet(() => other.dev).offline();
  const send = (auth: string) =>
    stack.api('POST', '/devices/auth', { token: device.token, auth, sdk: 10_000 });
  expect((await send(device.auth)).status).toBe(200);
  expect((await send(own.auth)).status).not.toBe(200);
});

async function registerDevice(): Promise<string> {
  return (await createFleet(() => other.dev).offline()).token;
}

function push(fields: object): RequestParts {
  return { path: '/push', body: { data: {}, ...fields } };
}

function presence(tokens: string[]): RequestParts {
  return { path: '/devices/presence', body: { tokens } };
}

function inOneHour(): number {
  return Math.floor(Date.now() / 1_000) + 60;
}
