import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import {
  type KindResponse,
  type RequestTargets,
  requestEverything,
} from '../support/faults/every-request.ts';
import { sendPush } from '../support/faults/pushes.ts';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

/** Guarantee G15. */
const RESPONSE_WITHIN_MS = 3_000;
/** Longer than an API key is remembered. */
const BROKEN_MS = 9_000;
const ROUND_EVERY_MS = 700;
const ARRIVED_MS = 300;
const API_FROZEN_MS = 5_000;

let fixture: StackBehindProxy;
let mongo: TestMongo;
let targets: RequestTargets;
beforeAll(async () => {
  fixture = await startStackBehindProxy();
  const { stack } = fixture;
  mongo = await openMongo(stack.dev);
  const device = await registerDevice(stack.dev);
  const { tokens } = await createDevicePool(stack, mongo, { registered: 2_000, real: 0 });
  const topic = 'some';
  await stack.api('POST', '/topics/subscribe', { token: device.token, topics: [topic] });
  targets = { device, tokens, push: (await sendPush(stack, device.token)).id, topic };
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.stop();
});

const sendRequest = () => requestEverything(fixture.stack, targets);

/** Sends every kind of request continuously during an outage, and checks all responses. */
async function requestDuringFault(): Promise<KindResponse[]> {
  const lags = createLagRecord();
  const rounds: Promise<KindResponse[]>[] = [];
  const before = performance.now();
  while (performance.now() - before < BROKEN_MS) {
    rounds.push(sendRequest());
    await lags.measure(ROUND_EVERY_MS);
  }
  const responses = (await lags.during(Promise.all(rounds))).flat();
  const longest = Math.max(...responses.map(({ tookMs }) => tookMs));
  process.stdout.write(`${responses.length} responses, the slowest in ${Math.round(longest)} ms\n`);
  const brief = ({ kind, status, text, tookMs }: KindResponse) => ({ kind, status, text, tookMs });
  const isFit = ({ status }: KindResponse) => status === 200 || status >= 500;
  expect(responses.filter((response) => !isFit(response)).map(brief)).toEqual([]);
  const withinMs = RESPONSE_WITHIN_MS + 3 * lags.maxMs();
  expect(responses.filter(({ tookMs }) => tookMs > withinMs).map(brief)).toEqual([]);
  expect(responses.some(({ status }) => status >= 500)).toBe(true);
  return responses;
}

/** Every push that got a 200 is there. */
async function expectStored(responses: readonly KindResponse[]): Promise<void> {
  const accepted = responses.filter(
    ({ kind, status }) => kind.startsWith('push to') && status === 200,
  );
  const ids = accepted.map(({ text }) => (JSON.parse(text) as { id: string }).id);
  const pushes = mongo.db.collection<{ _id: string }>('pushes');
  const acceptedPushes = { _id: { $in: ids }, state: { $in: ['open', 'finished'] } };
  expect(await pushes.countDocuments(acceptedPushes)).toBe(ids.length);
}

async function untilHealthy(): Promise<void> {
  const isHealthy = async () => (await fixture.stack.api('GET', '/topics')).status === 200;
  await until(isHealthy, { timeoutMs: 30_000 });
}

test('requests in flight while the API itself is frozen are served afterwards', async () => {
  process.kill(fixture.mongodbPid(), 'SIGSTOP');
  const pendingRequest = sendRequest();
  await sleep(ARRIVED_MS);
  fixture.stack.kill('api', 'SIGSTOP');
  process.kill(fixture.mongodbPid(), 'SIGCONT');
  await sleep(API_FROZEN_MS);
  fixture.stack.kill('api', 'SIGCONT');
  const responses = await pendingRequest;
  expect(responses.filter(({ status }) => status !== 200)).toEqual([]);
  await expectStored(responses);
});

test('a frozen mongod', async () => {
  process.kill(fixture.mongodbPid(), 'SIGSTOP');
  const responses = await requestDuringFault().finally(() =>
    process.kill(fixture.mongodbPid(), 'SIGCONT'),
  );
  await untilHealthy();
  await expectStored(responses);
});

test('stalled connections, while new ones work', async () => {
  const busy = await Promise.all([sendRequest(), sendRequest(), sendRequest()]);
  expect(busy.flat().length).toBeGreaterThan(0);
  fixture.proxy.stall();
  const responses = await requestDuringFault();
  await untilHealthy();
  await expectStored(responses);
});
