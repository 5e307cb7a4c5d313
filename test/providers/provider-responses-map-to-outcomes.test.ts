import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, send } from '../support/end-to-end/pushes.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { type FinalOutcome, untilFinal } from '../support/providers/outcomes.ts';
import type { ScriptedResponse } from '../support/providers/sandbox.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** A response that a provider sends once before it recovers, and the outcome of the delivery. */
type Row = [response: ScriptedResponse, outcome: FinalOutcome | 'tried again'];

const failed = (reason: NonNullable<FinalOutcome['reason']>): FinalOutcome => ({
  outcome: 'failed',
  reason,
});
const GONE: FinalOutcome = { outcome: 'gone' };

const APNS: Row[] = [
  [{ as: 'BadDeviceToken' }, failed('bad-provider-address')],
  [{ as: 'DeviceTokenNotForTopic' }, failed('wrong-credential')],
  [{ as: 'PayloadTooLarge' }, failed('payload-too-large')],
  [{ as: 'BadCollapseId' }, failed('rejected-by-provider')],
  [{ as: 'Unregistered' }, GONE],
  [{ as: 'TooManyRequests', headers: { 'retry-after': '1' } }, 'tried again'],
  [{ as: 'ServiceUnavailable' }, 'tried again'],
  [{ do: 'refuse-stream' }, 'tried again'],
  [{ do: 'reset' }, 'tried again'],
  [{ do: 'goaway' }, { outcome: 'sent' }],
];

const FCM: Row[] = [
  [{ as: 'INVALID_ARGUMENT' }, failed('rejected-by-provider')],
  [{ as: 'SENDER_ID_MISMATCH' }, failed('wrong-credential')],
  [{ as: 'UNREGISTERED' }, GONE],
  [{ as: 'QUOTA_EXCEEDED', headers: { 'retry-after': '1' } }, 'tried again'],
  [{ as: 'UNAVAILABLE' }, 'tried again'],
  [{ status: 502, body: 'Bad Gateway' }, 'tried again'],
  [{ do: 'drop' }, 'tried again'],
];

const WEB_PUSH: Row[] = [
  [{ status: 400 }, failed('rejected-by-provider')],
  [{ status: 410 }, GONE],
  [{ status: 413 }, failed('payload-too-large')],
  [{ do: 'redirect' }, failed('rejected-by-provider')],
  [{ status: 429, headers: { 'retry-after': '1' } }, 'tried again'],
  [{ status: 503 }, 'tried again'],
  [{ do: 'flood' }, { outcome: 'sent' }],
];
/** In a push of its own: with the connection, responses to other requests in flight would be lost. */
const WEB_PUSH_DROP: Row[] = [[{ do: 'drop' }, 'tried again']];

let fixture: ProviderFixture;
let tenant: TestTenant;
/** The pushes over FCM expire after seconds, in which the other channels are tested. */
let fcmResponses: Promise<void>;
beforeAll(async () => {
  fixture = await useSharedProviders();
  // At once: only devices over FCM are tested here.
  tenant = await fixture.tenant({ fcmFallbackSeconds: 0 });
  fcmResponses = respondOverFcm();
  // Its own test reports its failure.
  fcmResponses.catch(() => undefined);
});
afterAll(() => fixture?.close());

/** A device for each row, scripted; one push to all of them. */
async function sendTo(
  channel: string,
  rows: readonly Row[],
  register: () => Promise<ProviderDevice>,
) {
  const devices: ProviderDevice[] = [];
  for (const [response] of rows) {
    const device = await register();
    await fixture.sandbox.script(channel, device.address, [response]);
    devices.push(device);
  }
  const push = await send(
    tenant,
    devices.map(({ token }) => token),
  );
  return { push, devices };
}

/** The times of a provider's requests for a device, in milliseconds since 1970. */
async function requestTimes(push: { id: string }, { address }: ProviderDevice): Promise<number[]> {
  const received = await fixture.sandbox.received(push.id);
  return received.filter(({ to }) => to === address).map(({ at }) => at);
}

async function requestsFor(push: { id: string }, device: ProviderDevice): Promise<number> {
  return (await requestTimes(push, device)).length;
}

/** Checks whether the second try came no earlier than the first response requested. */
function isRetryDelayed([response]: Row, [first = 0, second = 0]: readonly number[]): boolean {
  const { headers } = response as { headers?: Record<string, string> };
  return second - first >= Number(headers?.['retry-after'] ?? 0) * 1_000;
}

/** Returns the outcome of each recipient, and whether it was retried. */
async function observeRows(
  { push, devices }: Awaited<ReturnType<typeof sendTo>>,
  rows: readonly Row[],
): Promise<Row[]> {
  const seen: Row[] = [];
  for (const [index, device] of devices.entries()) {
    const finalOutcome = await untilFinal(fixture.store, push, device.token);
    const row = rows[index] ?? [{}, finalOutcome];
    const times = await requestTimes(push, device);
    const wasAgain =
      finalOutcome.outcome === 'sent' && times.length === 2 && isRetryDelayed(row, times);
    seen.push([row[0], wasAgain ? 'tried again' : finalOutcome]);
  }
  return seen;
}

/** The flags of those that are gone, as the API shows them, one by one and in bulk. */
async function flagsOf(devices: readonly ProviderDevice[], rows: readonly Row[]) {
  const gone = devices.filter((_, index) => rows[index]?.[1] === GONE);
  const tokens = gone.map(({ token }) => token);
  const { json } = await tenant.api<{ presence: object[] }>('POST', '/devices/presence', {
    tokens,
  });
  const infos = await Promise.all(tokens.map((token) => getDeviceInfo(tenant, token)));
  expect(json.presence).toHaveLength(gone.length);
  return [...infos.map(({ presence }) => presence), ...json.presence];
}

describe('APNs', () => {
  test('sends every response, and each recipient ends as in the table', async () => {
    const sent = await sendTo('apns', APNS, () => registerIphone(tenant.dev));
    expect(await observeRows(sent, APNS)).toEqual(APNS);
    for (const presence of await flagsOf(sent.devices, APNS)) {
      expect(presence).toMatchObject({ uninstalled: true });
    }
  });

  test('reports a token as gone before the device registered: it is not flagged', async () => {
    const device = await registerIphone(tenant.dev);
    const timestampMs = Date.now() - 86_400_000;
    await fixture.sandbox.script('apns', device.address, [{ as: 'Unregistered', timestampMs }]);
    const push = await send(tenant, device.token);
    expect(await untilFinal(fixture.store, push, device.token)).toEqual(GONE);
    expect((await getDeviceInfo(tenant, device.token)).presence).not.toHaveProperty('uninstalled');
    const again = await send(tenant, device.token);
    expect(await untilFinal(fixture.store, again, device.token)).toEqual({ outcome: 'sent' });
  });

  test('gets no request for a device without a token, nor for one that is flagged', async () => {
    const bare = await registerIphone(tenant.dev);
    const { token, auth } = bare;
    await tenant.api('POST', '/devices/token', { token, auth, pushToken: null });
    const push = await send(tenant, token);
    expect(await untilFinal(fixture.store, push, token)).toEqual(failed('no-provider-address'));
    expect(await requestsFor(push, bare)).toBe(0);
  });
});

async function respondOverFcm(): Promise<void> {
  const devices: ProviderDevice[] = [];
  for (const [response] of FCM) {
    const device = await registerAndroid(tenant.dev);
    await fixture.sandbox.script('fcm', device.address, [response]);
    devices.push(device);
  }
  const push = await send(
    tenant,
    devices.map(({ token }) => token),
    { time_to_live: 12 },
  );
  const expected = FCM.map(([, finalOutcome]) => (finalOutcome === 'tried again' ? 2 : 1));
  await until(async () => {
    const requests = await Promise.all(devices.map((device) => requestsFor(push, device)));
    return requests.join() === expected.join();
  });
  for (const presence of await flagsOf(devices, FCM)) {
    expect(presence).toMatchObject({ uninstalled: true });
  }
  // All of them are still pending over MQTT: those that FCM accepted end as sent, the others as expired.
  const isOver = async () => {
    const found = await fixture.store.deliveryStatus.statusOfPush(push.id);
    return found?.state === 'finished' && found.outcomes.sent !== undefined && found.outcomes;
  };
  const again = expected.filter((times) => times === 2).length;
  expect(await until(isOver, { timeoutMs: 40_000 })).toEqual({
    sent: again,
    expired: FCM.length - again,
  });
}

test('a Web Push service sends every response, and each recipient ends as in the table', async () => {
  const register = () => registerSimulatedBrowser(tenant.dev, fixture.sandbox);
  const sent = await sendTo('web-push', WEB_PUSH, register);
  expect(await observeRows(sent, WEB_PUSH)).toEqual(WEB_PUSH);
  const dropped = await sendTo('web-push', WEB_PUSH_DROP, register);
  expect(await observeRows(dropped, WEB_PUSH_DROP)).toEqual(WEB_PUSH_DROP);
  for (const presence of await flagsOf(sent.devices, WEB_PUSH)) {
    expect(presence).toMatchObject({ unsubscribed: true });
  }
});

test('FCM sends every response, and each recipient ends as in the table', () => fcmResponses);
