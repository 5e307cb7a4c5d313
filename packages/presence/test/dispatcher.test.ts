import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import type { DispatchPlan } from '../src/dispatch-to-many.ts';
import { createDispatcher, type Delivery, type Dispatcher } from '../src/dispatcher.ts';
import { decodeGatewayMessage, encodeGatewayMessage } from '../src/gateway-messages.ts';
import type { PresenceEntry } from '../src/keys.ts';
import { createPresenceReader, type PresenceReader } from '../src/presence-reader.ts';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import { timeToMs } from '../src/redis-time.ts';
import { createResultBatch, readReplyEntry } from '../src/replies.ts';
import { createWorkerStream } from '../src/worker-stream.ts';
import { freePort, startRedis } from './start-server.ts';
import { leaveWithin, openTestGateway, type TestGateway } from './test-gateway.ts';

const DELIVERY: Delivery = {
  push: 'p1',
  work: 'p1',
  claim: 'c1',
  expiresAt: Date.now() + 60_000,
  payload: '{"text":"grüß dich"}',
};

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let redis: Redis;
let dispatcher: Dispatcher;
let presenceReader: PresenceReader;
let gateways: TestGateway[];

async function startTestGateway(): Promise<TestGateway> {
  const gateway = await openTestGateway(server.url);
  gateways.push(gateway);
  return gateway;
}

async function presenceOf(token: string): Promise<PresenceEntry> {
  const [entry] = await presenceReader.lookup([token]);
  if (entry === undefined) throw new Error(`${token} is offline`);
  return entry;
}

beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
  redis = presence.redis as Redis;
  dispatcher = await createDispatcher(presence);
  presenceReader = createPresenceReader(presence);
});

afterAll(async () => {
  await dispatcher.close();
  presence.close();
  await server.stop();
});

beforeEach(() => {
  gateways = [];
});

afterEach(async () => {
  for (const { channel } of gateways) await channel.close();
});

/** Dispatches to devices whose position is that in the list. */
const dispatch = (
  tokens: readonly string[],
  plan: Partial<DispatchPlan> = {},
  delivery = DELIVERY,
) =>
  dispatcher.dispatchToDevices(
    delivery,
    tokens.map((token, position) => ({ token, position })),
    { ...leaveWithin(5_000), ...plan },
  );

describe('presence', () => {
  test('a connection that closed before its registration is not registered', async () => {
    const gateway = await startTestGateway();
    await gateway.channel.register({ token: 'd3', connection: 'closed', connectedAt: 0 });
    expect(await presenceReader.lookup(['d3'])).toEqual([undefined]);
  });

  test('after a flush of Redis every connection is registered again under a new identity', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('d4', 'k1');
    const before = await presenceOf('d4');
    await redis.flushall();
    const after = await until(() => presenceOf('d4'));
    expect(after.gateway).not.toBe(before.gateway);
    await until(() => gateway.reregistered.length === 1);
  });
});

describe('a dispatch', () => {
  test('to one device fails alone if its stream cannot be written', async () => {
    const [broken, intact] = [await startTestGateway(), await startTestGateway()];
    await broken.connect('f6', 'k1');
    await intact.connect('f7', 'k2');
    await redis.set(`h:${(await presenceOf('f6')).gateway}`, 'no stream');
    const [failed, sent] = await Promise.allSettled(
      ['f6', 'f7'].map((token) => dispatch([token], {}, { ...DELIVERY, claim: token })),
    );
    expect(failed).toMatchObject({ reason: { message: expect.stringMatching(/WRONGTYPE/) } });
    expect(sent).toEqual({ status: 'fulfilled', value: new Map([[0, 'acknowledged']]) });
  });

  test('treats a malformed presence entry as absent', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('f8', 'k1');
    await redis.hset('p:f9', 'a', 'b');
    expect([...(await dispatch(['f9', 'f8'])).values()].sort()).toEqual([
      'acknowledged',
      'offline',
    ]);
  });

  test("reaches the devices' gateways unchanged and returns a result for each recipient", async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    second.result = 'syncing';
    await first.connect('e1', 'k1');
    await second.connect('e2', 'k2');
    const recipients = [
      { token: 'e1', position: 3 },
      { token: 'nobody', position: 7 },
      { token: 'e2', position: 999 },
    ];
    const parts: [number, unknown][] = [];
    const results = await dispatcher.dispatchToDevices(DELIVERY, recipients, {
      ...leaveWithin(5_000),
      onResults: async (part) => void parts.push(...part),
    });
    expect(Object.fromEntries(results)).toEqual({
      7: 'offline',
      3: 'acknowledged',
      999: 'syncing',
    });
    expect(new Map(parts)).toEqual(results);
    expect(first.deliveries).toMatchObject([{ ...DELIVERY, tokens: ['e1'], positions: [3] }]);
  });

  test("carries its deadline in Redis's time", async () => {
    const gateway = await startTestGateway();
    await gateway.connect('e3', 'k1');
    await dispatch(['e3']);
    const remainingMs = (gateway.deliveries[0]?.deadline ?? 0) - gateway.channel.now();
    expect(remainingMs).toBeGreaterThan(0);
    expect(remainingMs).toBeLessThan(5_001);
  });

  test('without a reply returns unanswered after the timeout', async () => {
    const gateway = await startTestGateway();
    gateway.result = undefined;
    await gateway.connect('e6', 'k1');
    expect(await dispatch(['e6'], leaveWithin(10))).toEqual(new Map([[0, 'unanswered']]));
  });

  test('to a gateway without credit sends nothing, and one without a stream is not connected', async () => {
    const [idle, gone] = [await startTestGateway(), await startTestGateway()];
    await idle.connect('e11', 'k1');
    await gone.connect('e12', 'k2');
    await redis.set(`g:${(await presenceOf('e11')).gateway}`, 0, 'KEEPTTL');
    await redis.del(`h:${(await presenceOf('e12')).gateway}`);
    const results = await dispatch(['e11', 'e12']);
    expect(Object.fromEntries(results)).toEqual({ 0: 'not-sent', 1: 'not-connected' });
    expect([...idle.deliveries, ...gone.deliveries]).toEqual([]);
  });

  test('that may not be sent has no result', async () => {
    const gateway = await startTestGateway();
    for (const token of ['e9', 'e10']) await gateway.connect(token, `of-${token}`);
    const deadline = performance.now() + 5_000;
    for (const tokens of [['e9', 'e10'], ['e10']]) {
      expect([...(await dispatch(tokens, { beforeSend: async () => undefined }))]).toEqual([]);
      const includes = (position: number) => tokens[position] === 'e9';
      const sent = await dispatch(tokens, { beforeSend: async () => ({ deadline, includes }) });
      expect(sent.size).toBe(tokens.length - 1);
    }
    expect(gateway.deliveries).toHaveLength(1);
  });

  test('leaves its replies for the successor of a worker that was killed', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('e7', 'k1');
    await dispatch(['e7'], {}, { ...DELIVERY, claim: 'dead' });
    const readTime = async () => timeToMs(await redis.time());
    const repliedBy = await readTime();
    await until(async () => (await readTime()) > repliedBy + 500);
    const successor = await createDispatcher(presence);
    const startedAt = await readTime();
    const replies = await successor.readReplies(dispatcher.replyStream, 'dead');
    expect(replies).toEqual(new Map([[0, { result: 'acknowledged', ageMs: expect.any(Number) }]]));
    // The age is that of the reply: longer than the successor has been there.
    expect(replies.get(0)?.ageMs).toBeGreaterThanOrEqual(startedAt - repliedBy - 1);
    await successor.close();
  });
});

test('a dispatch to a server that has become a replica goes over a new connection', async () => {
  const server = await startRedis();
  const redis = await connectRedis(server);
  const own = await connectPresence(server);
  const stream = await createWorkerStream(own, 'worker', () => undefined);
  try {
    await redis.xadd('h:gateway', '*', 'begin', '');
    await redis.call('REPLICAOF', '127.0.0.1', await freePort());
    const reconnecting = once(own.redis, 'reconnecting');
    await expect(stream.send([{ gateway: 'gateway', fields: ['a', 'b'] }])).rejects.toThrow();
    await reconnecting;
    expect(await redis.xlen('h:gateway')).toBe(1);
  } finally {
    stream.close();
    own.close();
    redis.disconnect();
    await server.stop();
  }
});

const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const OTHER_TRACE = '00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01';
const TO = { reply: 'r', work: 'p1', claim: 'c1' };
const MESSAGE = {
  ...{ ...DELIVERY, reply: 'r', deadline: 2 },
  ...{ tokens: ['d1', 'd2'], positions: [0, 7] },
};

test('a dispatch has one more field in its header, which is absent without a trace', () => {
  const fields = encodeGatewayMessage({ kind: 'deliver', delivery: MESSAGE });
  expect(fields.filter((_, index) => index % 2 === 0)).toEqual([
    'deliver',
    'payload',
    'tokens',
    'positions',
  ]);
  expect(fields[1]).not.toContain('trace');
  const delivery = { ...MESSAGE, trace: TRACE };
  const traced = encodeGatewayMessage({ kind: 'deliver', delivery });
  expect([traced[0], ...traced.slice(2)]).toEqual([fields[0], ...fields.slice(2)]);
  expect(JSON.parse(traced[1] ?? '')).toEqual({ ...JSON.parse(fields[1] ?? ''), trace: TRACE });
  expect(decodeGatewayMessage(traced)).toEqual({ kind: 'deliver', delivery });
});

test('a field that only a newer release knows is ignored', () => {
  const message = encodeGatewayMessage({ kind: 'deliver', delivery: MESSAGE });
  const [kind = '', header = '', ...rest] = message;
  const newer = JSON.stringify({ ...JSON.parse(header), newer: 1 });
  expect(decodeGatewayMessage([kind, newer, ...rest])).toMatchObject({ delivery: MESSAGE });
});

test('a reply has a fourth word after the three that are read by position', () => {
  const results = createResultBatch();
  results.add({ ...TO, trace: TRACE }, 1, 'acknowledged');
  results.add({ ...TO, trace: TRACE }, 2, 'acknowledged');
  results.add({ ...TO, trace: OTHER_TRACE }, 3, 'acknowledged');
  results.add(TO, 4, 'acknowledged');
  const fields = results.takeAll().get('r') ?? [];
  expect(fields.filter((_, index) => index % 2 === 0)).toEqual([
    `p1 c1 0 ${TRACE}`,
    `p1 c1 0 ${OTHER_TRACE}`,
    'p1 c1 0',
  ]);
  const reply = { work: 'p1', claim: 'c1', result: 'acknowledged' };
  expect(readReplyEntry(fields)).toEqual([
    { ...reply, positions: [1, 2], trace: TRACE },
    { ...reply, positions: [3], trace: OTHER_TRACE },
    { ...reply, positions: [4] },
  ]);
});
