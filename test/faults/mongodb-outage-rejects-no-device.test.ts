import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { attemptPush, sendPush } from '../support/faults/pushes.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** CONNACK code of an outage (MQTT 3.1.1, 3.2.2.3): server unavailable. */
const UNAVAILABLE = 3;
const SHORT_MS = 300;
const LONG_MS = 8_000;
/** Guarantee G15. */
const RESPONSE_WITHIN_MS = 3_000;

let stack: Stack;
/** Registered before the outage: for a minute after it no device can register. */
let devices: MqttDevice[];
beforeAll(async () => {
  stack = await useKillableStack({ restartsApis: true });
  devices = await Promise.all([0, 1, 2, 3].map(() => newMqttDevice(stack.dev)));
});
afterAll(() => stack?.stop());

function nextDevice(): MqttDevice {
  const device = devices.pop();
  if (device === undefined) throw new Error('too few devices are registered');
  return device;
}

interface SeenResults {
  connects: (number | 'accepted' | 'closed')[];
  auths: number[];
}

/** Does continuously what SDKs do: connects, and checks its credentials. */
function requestContinuously(device: MqttDevice): { stop(): Promise<SeenResults> } {
  const seen: SeenResults = { connects: [], auths: [] };
  let isStopped = false;
  const sendRequest = async () => {
    while (!isStopped) {
      seen.connects.push(await tryConnect(device));
      seen.auths.push(await checkCredentials(device));
      await sleep(20);
    }
  };
  const pendingRequest = sendRequest();
  return {
    async stop() {
      isStopped = true;
      await pendingRequest;
      return seen;
    },
  };
}

async function tryConnect({ token, auth }: MqttDevice): Promise<SeenResults['connects'][number]> {
  const connection = createMqttDevice({ url: stack.dev.mqtt, token, auth });
  try {
    await connection.connect();
    return 'accepted';
  } catch (error) {
    return (error as { code?: number }).code ?? 'closed';
  } finally {
    await connection.disconnect();
  }
}

async function checkCredentials({ token, auth }: MqttDevice): Promise<number> {
  const response = await fetch(new URL('/devices/auth', stack.dev.api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, auth, sdk: 10_000 }),
  });
  return response.status;
}

function expectNeverRejected({ connects, auths }: SeenResults): void {
  const kind = [...new Set(connects)];
  expect(kind.filter((one) => !['accepted', 'closed', UNAVAILABLE].includes(one))).toEqual([]);
  expect([...new Set(auths)].filter((status) => status !== 200 && status !== 503)).toEqual([]);
}

async function freeze(ms: number): Promise<void> {
  stack.kill('mongodb', 'SIGSTOP');
  await sleep(ms);
  stack.kill('mongodb', 'SIGCONT');
}

test.each<[what: string, fault: () => Promise<unknown>]>([
  ['frozen for a moment', () => freeze(SHORT_MS)],
  ['frozen for seconds', () => freeze(LONG_MS)],
  ['killed', () => stack.waitForRestart('mongodb', stack.kill('mongodb', 'SIGKILL'))],
])('when it is %s', async (_what, fault) => {
  const device = nextDevice();
  const pendingRequest = requestContinuously(device);
  await fault();
  expectNeverRejected(await pendingRequest.stop());
  await until(async () => (await tryConnect(device)) === 'accepted');
});

test('a push gets 500 within 3 s, and is not accepted', async () => {
  const device = nextDevice();
  await until(async () => (await tryConnect(device)) === 'accepted');
  stack.kill('mongodb', 'SIGSTOP');
  const lags = createLagRecord();
  const attempt = await lags.during(attemptPush(stack, device.token));
  stack.kill('mongodb', 'SIGCONT');
  expect(attempt).toMatchObject({ isAccepted: false, status: 500 });
  expect(attempt.tookMs).toBeLessThan(RESPONSE_WITHIN_MS + 3 * lags.maxMs());
  await until(async () => (await tryConnect(device)) === 'accepted');
  await device.connect();
  const push = await until(() => sendPush(stack, device.token));
  await until(() => countArrivals(device, push) === 1);
  await device.disconnect();
});
