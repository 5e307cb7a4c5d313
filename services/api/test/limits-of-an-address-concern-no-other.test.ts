import { LIMITS } from '@carillon/core/limits';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { openBoardQueues } from '@carillon/queue/board-queues';
import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { createLogger } from '@carillon/runtime/logger';
import { createProxyWarner } from '@carillon/runtime/proxy-warner';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import supertest from 'supertest';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createProxyDetector } from '../src/http/detect-proxy.ts';
import { createKeyUseRecorder } from '../src/http/key-uses.ts';
import { createRateLimits } from '../src/http/rate-limits.ts';
import { createThrottledLookup } from '../src/http/throttled-lookup.ts';
import { type Edge, startEdge } from './edge.ts';

/** Keys that one query looks up, of an address and in all. */
const [PER_ADDRESS, IN_ALL] = [2_000, 4_000];
const APP = { _id: 'app', registrationsPerHour: null };
const REFUSED = { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: expect.any(Number) };

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
});
afterAll(async () => {
  presence?.close();
  await server?.stop();
});

const startLimits = (hasAddressLimits = true) =>
  createRateLimits(
    createRateCounter(presence, () => undefined),
    hasAddressLimits,
  );

/** Addresses of one /64 network, and one of the next network. */
function addressesOf(network: number): { one: string; another: string; foreign: string } {
  const prefix = (n: number) => `2001:db8:0:${n.toString(16)}`;
  return {
    one: `${prefix(network)}::1`,
    another: `${prefix(network)}:ffff::9`,
    foreign: `${prefix(network + 1)}::1`,
  };
}

async function repeat(times: number, call: (n: number) => Promise<unknown>): Promise<void> {
  await Promise.all(Array.from({ length: times }, (_, n) => call(n)));
}

describe('new devices', () => {
  const { registrationsPerAddressHour } = LIMITS;

  test('of one network are limited, and those of another are not', async () => {
    const { one, another, foreign } = addressesOf(0x10);
    const { countRegistration } = startLimits();
    await repeat(registrationsPerAddressHour, () => countRegistration(one, APP));
    await expect(countRegistration(another, APP)).rejects.toMatchObject(REFUSED);
    await countRegistration(foreign, APP);
  });

  test('have no limit by address with ADDRESS_LIMITS=off', async () => {
    const { one } = addressesOf(0x20);
    const { countRegistration } = startLimits(false);
    await repeat(registrationsPerAddressHour + 1, () => countRegistration(one, APP));
  });
});

describe('changes of topics', () => {
  const { topicChangesPerDeviceMinute, topicChangesPerAddressMinute } = LIMITS;
  const devices = topicChangesPerAddressMinute / topicChangesPerDeviceMinute;

  test('of one network are limited, and a device above its own limit uses up nothing of it', async () => {
    const { one, another, foreign } = addressesOf(0x30);
    const { countTopicChange } = startLimits();
    await repeat(topicChangesPerDeviceMinute, () => countTopicChange('greedy', one));
    await repeat(topicChangesPerAddressMinute, () =>
      expect(countTopicChange('greedy', one)).rejects.toMatchObject(REFUSED),
    );
    await repeat((devices - 1) * topicChangesPerDeviceMinute, (n) =>
      countTopicChange(`device ${n % (devices - 1)}`, one),
    );
    await expect(countTopicChange('one more', another)).rejects.toMatchObject(REFUSED);
    await countTopicChange('elsewhere', foreign);
  });

  test('are limited by the device alone with ADDRESS_LIMITS=off', async () => {
    const { one } = addressesOf(0x40);
    const { countTopicChange } = startLimits(false);
    await repeat(topicChangesPerAddressMinute + devices, (n) =>
      countTopicChange(`another ${n % (devices + 2)}`, one),
    );
    await repeat(topicChangesPerDeviceMinute, () => countTopicChange('alone', one));
    await expect(countTopicChange('alone', one)).rejects.toMatchObject(REFUSED);
  });
});

test('wrong keys of one network are counted together, and not at all with ADDRESS_LIMITS=off', async () => {
  const { one, another, foreign } = addressesOf(0x50);
  const { countWrongKey, hasTooManyWrongKeys } = startLimits();
  for (let n = 0; n < LIMITS.wrongKeysPerHour; n += 1) expect(await countWrongKey(one)).toBe(false);
  expect(await countWrongKey(another)).toBe(true);
  expect([one, another, foreign].map(hasTooManyWrongKeys)).toEqual([true, true, false]);
  const unlimited = startLimits(false);
  expect(await unlimited.countWrongKey(one)).toBe(false);
  expect(unlimited.hasTooManyWrongKeys(one)).toBe(false);
});

/** A lookup that knows the owner of every key, and the keys of each query that it has run. */
function startLookup() {
  const queries: string[][] = [];
  const find = createThrottledLookup(async (keys) => {
    queries.push(keys);
    return new Map(keys.map((key) => [key, `owner of ${key}`]));
  });
  return { find, queries };
}

function findMany(find: ReturnType<typeof startLookup>['find'], count: number, address: string) {
  return Array.from({ length: count }, (_, n) => find(`key ${n} of ${address}`, address));
}

function countRefused(results: readonly PromiseSettledResult<unknown>[]): number {
  const refused = results.filter((result) => result.status === 'rejected');
  for (const { reason } of refused) expect(reason).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  return refused.length;
}

describe('lookups of keys', () => {
  test('waiting keys share a query, and each gets its own owner', async () => {
    const { find, queries } = startLookup();
    const owners = await Promise.all(findMany(find, 500, '203.0.113.7'));
    expect(owners).toEqual(owners.map((_, n) => `owner of key ${n} of 203.0.113.7`));
    expect(queries.map(({ length }) => length)).toEqual([500]);
  });

  test('a query takes 2,000 keys of one address, chosen at random, and all of another address', async () => {
    const { find, queries } = startLookup();
    const flood = Promise.allSettled(findMany(find, 2 * PER_ADDRESS, '203.0.113.7'));
    const others = Promise.allSettled(findMany(find, 100, '198.51.100.1'));
    const results = await flood;
    expect(countRefused(results)).toBe(PER_ADDRESS);
    // Neither the first keys nor the last ones displace all others.
    expect(countRefused(results.slice(0, PER_ADDRESS))).toBeGreaterThan(0);
    expect(countRefused(results.slice(PER_ADDRESS))).toBeLessThan(PER_ADDRESS);
    expect(countRefused(await others)).toBe(0);
    expect(queries.map(({ length }) => length)).toEqual([PER_ADDRESS + 100]);
  });

  test('a query takes 4,000 keys of all addresses', async () => {
    const { find, queries } = startLookup();
    const results = await Promise.allSettled(
      ['192.0.2.1', '192.0.2.2', '192.0.2.3'].flatMap((address) => findMany(find, 1_500, address)),
    );
    expect(countRefused(results)).toBe(3 * 1_500 - IN_ALL);
    expect(queries.map(({ length }) => length)).toEqual([IN_ALL]);
  });
});

test('however often keys are used, one job reports each of them once a minute', async () => {
  const producers = createProducers(server, () => undefined);
  const board = await openBoardQueues(server, () => undefined);
  const recorder = createKeyUseRecorder(producers, { now: () => 1_000.4 });
  for (let use = 0; use < 1_000; use += 1) recorder.record(use % 2 === 0 ? 'key1' : 'key2');
  await recorder.stop();
  recorder.record('key1');
  await recorder.stop();
  const jobs = await board.queues.find(({ name }) => name === 'presence')?.getWaiting();
  const uses = ['key1', 'key2'].map((key) => [key, 1_000]);
  expect(jobs?.map(({ data }) => jobSchemas.presence.parse(data))).toEqual([
    { events: [], keys: uses },
  ]);
  await board.close();
  await producers.close();
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

describe('a proxy that the settings do not name:', () => {
  let edge: Edge | undefined;
  afterEach(() => edge?.stop());

  /** Starts the edge of an API with that TRUST_PROXY; returns a request to it and the warnings so far. */
  async function startBehind(proxyHops: number) {
    const recorded: string[] = [];
    const warner = createProxyWarner({
      log: createLogger('edge', 'fatal'),
      record: async (kind) => void recorded.push(kind),
    });
    edge = await startEdge(
      ({ publicGet }) =>
        (router) =>
          router.get(
            '/who',
            publicGet(async ({ address }) => ({ address })),
          ),
      {},
      { proxyHops, onRequest: createProxyDetector(proxyHops, warner) },
    );
    const { url } = edge;
    const get = (headers: Record<string, string> = {}) => supertest(url).get('/who').set(headers);
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
});
