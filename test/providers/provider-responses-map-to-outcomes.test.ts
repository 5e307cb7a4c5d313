import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, type Sent, send } from '../support/end-to-end/pushes.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import type { ScriptedResponse } from '../support/providers/sandbox.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const SENT = { outcome: 'sent' };
const GONE = { outcome: 'gone' };
const NO_ADDRESS = { outcome: 'failed', reason: 'no-provider-address' };
const BAD_ADDRESS = { outcome: 'failed', reason: 'bad-provider-address' };
const RETRY_AFTER = { headers: { 'retry-after': '1' } };

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await useSharedProviders();
  // The fallback at once: no device has a connection here.
  tenant = await fixture.tenant({ fcm: 0 });
});
afterAll(() => fixture?.close());

const register = {
  apns: () => registerIphone(tenant.dev),
  fcm: () => registerAndroidByFcm(tenant.dev),
  fallback: () => registerAndroid(tenant.dev),
  'web-push': () => registerSimulatedBrowser(tenant.dev, fixture.sandbox),
};

/** Sends to a device whose provider sends a response once, and then recovers. */
async function sendTo(way: keyof typeof register, response: ScriptedResponse) {
  const device = await register[way]();
  await fixture.sandbox.script(way === 'fallback' ? 'fcm' : way, device.address, [response]);
  return { device, push: await send(tenant, device.token) };
}

/** Returns the times of a provider's requests for a device, in milliseconds since 1970. */
async function requestTimes({ id }: Sent, { address }: ProviderDevice): Promise<number[]> {
  const received = await fixture.sandbox.received(id);
  return received.filter(({ to }) => to === address).map(({ at }) => at);
}

/** Reads the presence of a device, alone and in bulk. */
async function readPresence({ token }: ProviderDevice): Promise<object[]> {
  const tokens = [token];
  const { json } = await tenant.api<{ presence: object[] }>('POST', '/devices/presence', {
    tokens,
  });
  expect(json.presence).toHaveLength(1);
  return [(await getDeviceInfo(tenant, token)).presence, ...json.presence];
}

/** One response of each kind; tests of the delivery-worker's clients have all of them. */
test.each([
  ['apns', { as: 'BadDeviceToken' }, BAD_ADDRESS, 1],
  ['apns', { as: 'TooManyRequests', ...RETRY_AFTER }, SENT, 2],
  ['apns', { do: 'refuse-stream' }, SENT, 2],
  ['apns', { do: 'goaway' }, SENT, 1],
  ['fcm', { as: 'UNAVAILABLE', ...RETRY_AFTER }, SENT, 2],
  ['web-push', { status: 503, ...RETRY_AFTER }, SENT, 2],
] as const)('%s %j: %j after %i requests', async (way, response, outcome, requests) => {
  const { push, device } = await sendTo(way, { ...response });
  expect(await untilFinal(fixture.store, push, device.token)).toEqual(outcome);
  const times = await requestTimes(push, device);
  expect(times).toHaveLength(requests);
  const [first = 0, second = 0] = times;
  // No earlier than the first response requested.
  if ('headers' in response) expect(second - first).toBeGreaterThanOrEqual(1_000);
});

test('the fallback is tried again too: what ends such a push is its receipt or its expiry', async () => {
  const { push, device } = await sendTo('fallback', { as: 'UNAVAILABLE' });
  await until(async () => (await requestTimes(push, device)).length === 2);
});

test.each([
  ['apns', { as: 'Unregistered' }, 'uninstalled'],
  ['fcm', { as: 'UNREGISTERED' }, 'uninstalled'],
  ['fallback', { as: 'UNREGISTERED' }, 'uninstalled'],
  ['web-push', { status: 410 }, 'unsubscribed'],
] as const)('%s reports a device as gone: %j flags it as %s', async (way, response, flag) => {
  const { push, device } = await sendTo(way, { ...response });
  // A device that goes by MQTT could still connect.
  if (way !== 'fallback') expect(await untilFinal(fixture.store, push, device.token)).toEqual(GONE);
  const isFlagged = async () => flag in ((await readPresence(device))[0] ?? {});
  await until(isFlagged, { what: `the flag ${flag}` });
  expect(await requestTimes(push, device)).toHaveLength(1);
  for (const presence of await readPresence(device))
    expect(presence).toMatchObject({ [flag]: true });
});

test('a token that was gone before the device registered is not flagged', async () => {
  const timestampMs = Date.now() - 86_400_000;
  const { push, device } = await sendTo('apns', { as: 'Unregistered', timestampMs });
  expect(await untilFinal(fixture.store, push, device.token)).toEqual(GONE);
  for (const presence of await readPresence(device))
    expect(presence).not.toHaveProperty('uninstalled');
  const again = await send(tenant, device.token);
  expect(await untilFinal(fixture.store, again, device.token)).toEqual(SENT);
});

test('a device without a token gets no request', async () => {
  const device = await registerIphone(tenant.dev);
  const { token, auth } = device;
  await tenant.api('POST', '/devices/token', { token, auth, pushToken: null });
  const push = await send(tenant, token);
  expect(await untilFinal(fixture.store, push, token)).toEqual(NO_ADDRESS);
  expect(await requestTimes(push, device)).toEqual([]);
});
