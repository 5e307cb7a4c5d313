import { randomUUID } from 'node:crypto';
import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { sendPush } from '../support/faults/pushes.ts';
import { createTenant, type Tenant } from '../support/guarantees/create-tenant.ts';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import { getPushStatus, untilPending } from '../support/guarantees/status.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const ABSENT_TOKEN = 'ffffffffffffffffffffff';
const ABSENT_PUSH = 'ffffffffffffffffffffffff';

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
  method: string,
  sendRequest: (id: string) => RequestParts,
  ours: string,
  absent: string,
) {
  const one = sendRequest(ours);
  const two = sendRequest(absent);
  const aboutOurs = await other.api(method, one.path, one.body);
  const aboutAbsent = await other.api(method, two.path, two.body);
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
  const routes: [string, string, string, (token: string) => RequestParts][] = [
    ['a push to it alone', 'POST', 'NO_RECIPIENTS', (to) => push({ to })],
    ['a push to it in tokens', 'POST', 'NO_RECIPIENTS', (one) => push({ tokens: [one] })],
    ['a scheduled push', 'POST', 'NO_RECIPIENTS', (to) => push({ to, schedule: inOneHour() })],
    ['presence', 'POST', 'NO_RESULTS', (one) => presence([one])],
    ['subscribe', 'POST', 'INVALID_DEVICE_TOKEN', (token) => topics('subscribe', token)],
    ['unsubscribe', 'POST', 'INVALID_DEVICE_TOKEN', (token) => topics('unsubscribe', token)],
  ];
  test.each(routes)('%s', async (_name, method, code, sendRequest) => {
    const { json } = await expectSameResponse(method, sendRequest, device.token, ABSENT_TOKEN);
    expect(json.code).toBe(code);
  });

  test('presence of it among its own devices', async () => {
    const own = await registerDevice();
    const sendRequest = (token: string) => presence([own, token]);
    const { json } = await expectSameResponse('POST', sendRequest, device.token, ABSENT_TOKEN);
    expect(json.presence).toMatchObject([{ id: own }]);
  });

  test('but device info returns APP_MISMATCH', async () => {
    const response = await other.api('GET', `/devices/${device.token}`);
    expect(response).toMatchObject({ status: 400, json: { code: 'APP_MISMATCH' } });
    expect(response.text).not.toContain(device.token);
    const absent = await other.api('GET', `/devices/${ABSENT_TOKEN}`);
    expect(absent).toMatchObject({ status: 400, json: { code: 'INVALID_DEVICE_TOKEN' } });
  });
});

describe("another tenant's push appears absent", () => {
  const scheduled = { schedule: Math.floor(Date.now() / 1_000) + 3_600 };
  test.each([
    ['GET', 'pending', {}],
    ['DELETE', 'pending', {}],
    ['GET', 'scheduled', scheduled],
    ['DELETE', 'scheduled', scheduled],
  ])('%s of a %s one', async (method, _state, fields) => {
    const { id } = await sendPush(stack, device.token, fields);
    const before = await getPushStatus(stack, { id });
    const sendRequest = (push: string) => ({ path: `/pushes/${push}` });
    const { json } = await expectSameResponse(method, sendRequest, id, ABSENT_PUSH);
    expect(json.code).toBe('INVALID_PUSH_ID');
    expect((await getPushStatus(stack, { id })).code).toBe(before.code);
    expect((await stack.api('DELETE', `/pushes/${id}`)).status).toBe(200);
  });
});

describe("another tenant's topic appears absent", () => {
  test('in the list of topics', async () => {
    const { json } = await other.api('GET', '/topics');
    expect(json).toEqual({ topics: [] });
  });

  test('in the list of subscribers', async () => {
    const sendRequest = (name: string) => ({ path: `/topics/${name}` });
    const { json } = await expectSameResponse('GET', sendRequest, topic, 'nobodys-topic');
    expect(json).toEqual({ subscribers: [] });
  });

  test('in a push', async () => {
    const sendRequest = (name: string) => push({ to: `/topics/${name}` });
    const { json } = await expectSameResponse('POST', sendRequest, topic, 'nobodys-topic');
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

function topics(verb: string, token: string): RequestParts {
  return { path: `/topics/${verb}`, body: { token, topics: ['news'] } };
}

function inOneHour(): number {
  return Math.floor(Date.now() / 1_000) + 60;
}
