import { createLogger } from '@carillon/runtime/logger';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { afterEach, expect, test } from '@jest/globals';
import supertest from 'supertest';
import { createProxyDetector } from '../src/http/detect-proxy.ts';
import { createRateLimits } from '../src/http/rate-limits.ts';
import { type Edge, startEdge } from './edge.ts';

let edge: Edge | undefined;
afterEach(() => edge?.stop());

/** Starts the edge of an API with that TRUST_PROXY; returns a request to it and the warnings so far. */
async function startBehind(proxyHops: number) {
  const recorded: string[] = [];
  const warner = createProxyWarner({
    log: createLogger('edge', 'fatal'),
    record: async (kind) => void recorded.push(kind),
  });
  const started = await startEdge(
    ({ publicGet }) =>
      (router) =>
        router.get(
          '/who',
          publicGet(async ({ address }) => ({ address })),
        ),
    {},
    { proxyHops, onRequest: createProxyDetector(proxyHops, warner) },
  );
  edge = started;
  const get = (headers: Record<string, string> = {}) =>
    supertest(started.url).get('/who').set(headers);
  return { get, recorded };
}

test.each(['X-Forwarded-For', 'Forwarded'])(
  '%s from a proxy while TRUST_PROXY is 0 causes a warning',
  async (name) => {
    const { get, recorded } = await startBehind(0);
    expect((await get()).status).toBe(200);
    expect(recorded).toEqual([]);
    const value = name === 'Forwarded' ? 'for=198.51.100.7' : '198.51.100.7';
    for (let n = 0; n < 5; n += 1) expect((await get({ [name]: value })).status).toBe(200);
    expect(recorded).toEqual(['api-forwarded-header']);
  },
);

test('more proxies than TRUST_PROXY, so that one of them is treated as the client, cause a warning', async () => {
  const { get, recorded } = await startBehind(1);
  const { body } = await get({ 'X-Forwarded-For': '198.51.100.7, 10.0.0.5' });
  expect(body).toEqual({ address: '10.0.0.5' });
  expect(recorded).toEqual(['api-too-few-proxies']);
});

test('forged entries of a client cause no warning while TRUST_PROXY is right', async () => {
  const { get, recorded } = await startBehind(1);
  const { body } = await get({ 'X-Forwarded-For': '10.0.0.5, 1.1.1.1, 198.51.100.7' });
  expect(body).toEqual({ address: '198.51.100.7' });
  await get({ 'X-Forwarded-For': '198.51.100.7' });
  await get();
  expect(recorded).toEqual([]);
});

test('the address that exceeds a limit is reported, and only with limits per address', async () => {
  let count = 0;
  const counter = {
    increment: async () => ({ count, resetsInMs: 1_000 }),
    currentCount: () => count,
  };
  const over: string[] = [];
  const limits = createRateLimits(counter as never, true, (address) => void over.push(address));
  const register = () => limits.countRegistration('10.0.0.5', { _id: 'app' });
  await register();
  await limits.countWrongKey('10.0.0.5');
  expect(over).toEqual([]);
  count = 1_000_000;
  await expect(register()).rejects.toThrow('Too many new devices');
  await expect(limits.countTopicChange('device', '10.0.0.5')).rejects.toThrow('Too many changes');
  expect(await limits.countWrongKey('10.0.0.6')).toBe(true);
  expect(over).toEqual(['10.0.0.5', '10.0.0.6']);
});
