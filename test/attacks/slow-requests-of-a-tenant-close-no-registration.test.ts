import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import { type PlainResponse, requestOnce } from '../support/guarantees/request-once.ts';
import { measureLag } from '../support/lag.ts';
import { type Credentials, registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

/** Slow reads and writes, of each more than the connections of an API process to MongoDB. */
const SLOW_REQUESTS = 32;
const SLOW_TOPIC = 'topic-that-takes-longer-than-every-timeout';
/** "At once", and less than the timeout of a statement. */
const AT_ONCE_MS = 1_500;

let fixture: StackBehindProxy;
let attacker: TestTenant;
let attackersDevice: Credentials;
/** A device of the stack's own tenant. */
let device: Credentials;
beforeAll(async () => {
  fixture = await startStackBehindProxy();
  attacker = await createTestTenant(fixture.stack, { limit: null });
  attackersDevice = await registerDevice(attacker.dev);
  device = await registerDevice(fixture.stack.dev);
});
afterAll(() => fixture?.stop());

function post(path: string, body: object): Promise<PlainResponse> {
  const url = new URL(path, fixture.stack.dev.api);
  return requestOnce({ method: 'POST', url, body: JSON.stringify({ ...body, sdk: 10_000 }) });
}

const register = () => post('/register', { appId: fixture.stack.dev.app, platform: 'electron' });

function listSubscribers(topic: string): Promise<PlainResponse> {
  const { api, apiKey } = attacker.dev;
  return requestOnce({ method: 'GET', url: new URL(`/topics/${topic}?api_key=${apiKey}`, api) });
}

/** Sends requests whose statements get no response from MongoDB. @param onEnd called when one has its response */
async function sendSlowRequests(onEnd: () => void): Promise<PlainResponse[]> {
  const path = `/topics/subscribe?api_key=${attacker.dev.apiKey}`;
  const { token } = attackersDevice;
  const requests = Array.from({ length: SLOW_REQUESTS }, () => [
    listSubscribers(SLOW_TOPIC),
    post(path, { token, topics: [SLOW_TOPIC] }),
  ]);
  return Promise.all(requests.flat().map((request) => request.finally(onEnd)));
}

/** Registers devices and checks credentials, one after the other, until the attack has ended and once more. */
async function requestDuring(attack: Promise<unknown>, responses: PlainResponse[]): Promise<void> {
  let hasEnded = false;
  const ending = attack.finally(() => {
    hasEnded = true;
  });
  const send = async () => {
    responses.push(await register());
    responses.push(await post('/devices/auth', device));
  };
  while (!hasEnded) await send();
  await ending;
  await send();
}

test('while the slow requests of a tenant time out, devices of others register at once', async () => {
  const { proxy } = fixture;
  const answerAgain = proxy.muteConnections([SLOW_TOPIC]);
  let atFirstEnd: number | undefined;
  const responses: PlainResponse[] = [];
  const lag = measureLag();
  const slow = sendSlowRequests(() => {
    atFirstEnd ??= responses.length;
  });
  await requestDuring(slow, responses).finally(answerAgain);
  const withinMs = AT_ONCE_MS + 3 * lag.stop();
  expect((await slow).filter(({ status }) => status < 500)).toEqual([]);
  expect([...new Set(responses.map(({ status }) => status))]).toEqual([200]);
  // A device that waits for the slow requests gets no response before the first of them.
  expect(atFirstEnd).toBeGreaterThan(0);
  expect(Math.max(...responses.map(({ tookMs }) => tookMs))).toBeLessThan(withinMs);
});

test('after a frozen MongoDB none register, even if only requests of a tenant noticed it', async () => {
  await until(async () => (await listSubscribers('any')).status === 200);
  const mongodb = fixture.mongodbPid();
  process.kill(mongodb, 'SIGSTOP');
  try {
    // The ping that follows the first one has no response by the end of the third one.
    for (let failed = 0; failed < 3; ) {
      if ((await listSubscribers('any')).status === 500) failed += 1;
    }
  } finally {
    process.kill(mongodb, 'SIGCONT');
  }
  await until(async () => (await listSubscribers('any')).status === 200);
  expect((await register()).status).toBe(503);
});
