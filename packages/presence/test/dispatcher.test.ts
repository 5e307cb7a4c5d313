import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import type { DispatchPlan } from '../src/dispatch-to-many.ts';
import { createDispatcher, type Delivery, type Dispatcher } from '../src/dispatcher.ts';
import type { PresenceEntry } from '../src/keys.ts';
import { createPresenceReader, type PresenceReader } from '../src/presence-reader.ts';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { connectRedis, pingRedis, type Redis } from '../src/redis.ts';
import { timeToMs } from '../src/redis-time.ts';
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

describe('a dispatch to one device', () => {
  const dispatchTo = async (token: string, position = 4) => {
    const delivery = { ...DELIVERY, claim: token };
    const recipients = [{ token, position }];
    return (await dispatcher.dispatchToDevices(delivery, recipients, leaveWithin(500))).get(
      position,
    );
  };

  test('fails alone if its stream cannot be written', async () => {
    const [broken, intact] = [await startTestGateway(), await startTestGateway()];
    await broken.connect('f6', 'k1');
    await intact.connect('f7', 'k2');
    const { gateway: id } = await presenceOf('f6');
    await redis.set(`h:${id}`, 'no stream');
    const results = await Promise.allSettled(['f6', 'f7'].map((token) => dispatchTo(token)));
    expect(results).toEqual([
      {
        status: 'rejected',
        reason: expect.objectContaining({ message: expect.stringMatching(/WRONGTYPE/) }),
      },
      { status: 'fulfilled', value: 'acknowledged' },
    ]);
  });

  test('treats a malformed presence entry as absent', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('f8', 'k1');
    await redis.hset('p:f9', 'a', 'b');
    const results = ['f9', 'f8'].map((token) => dispatchTo(token));
    expect(await Promise.all(results)).toEqual(['offline', 'acknowledged']);
  });
});

describe('a dispatch', () => {
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
      ...leaveWithin(500),
      onResults: async (part) => void parts.push(...part),
    });
    expect(results).toEqual(
      new Map([
        [7, 'offline'],
        [3, 'acknowledged'],
        [999, 'syncing'],
      ]),
    );
    expect(new Map(parts)).toEqual(results);
    expect(first.deliveries).toMatchObject([{ ...DELIVERY, tokens: ['e1'], positions: [3] }]);
  });

  test("carries its deadline in Redis's time", async () => {
    const gateway = await startTestGateway();
    await gateway.connect('e3', 'k1');
    await dispatcher.dispatchToDevices(DELIVERY, [{ token: 'e3', position: 0 }], leaveWithin(400));
    const [delivery] = gateway.deliveries;
    const remainingMs = (delivery?.deadline ?? 0) - gateway.channel.now();
    expect(remainingMs).toBeGreaterThan(0);
    expect(remainingMs).toBeLessThan(401);
  });

  test('without a reply returns unanswered after the timeout', async () => {
    const gateway = await startTestGateway();
    gateway.result = undefined;
    await gateway.connect('e6', 'k1');
    const recipients = [{ token: 'e6', position: 0 }];
    const results = await dispatcher.dispatchToDevices(DELIVERY, recipients, leaveWithin(10));
    expect(results).toEqual(new Map([[0, 'unanswered']]));
  });

  test('to a gateway without credit sends nothing, and one without a stream is not connected', async () => {
    const [idle, gone] = [await startTestGateway(), await startTestGateway()];
    await idle.connect('e11', 'k1');
    await gone.connect('e12', 'k2');
    const ids = [await presenceOf('e11'), await presenceOf('e12')].map(({ gateway }) => gateway);
    await redis.set(`g:${ids[0]}`, 0, 'KEEPTTL');
    await redis.del(`h:${ids[1]}`);
    const recipients = ['e11', 'e12'].map((token, position) => ({ token, position }));
    const results = await dispatcher.dispatchToDevices(DELIVERY, recipients, leaveWithin(500));
    expect(results).toEqual(
      new Map([
        [0, 'not-sent'],
        [1, 'not-connected'],
      ]),
    );
    expect([...idle.deliveries, ...gone.deliveries]).toEqual([]);
  });

  test('that may not be sent has no result', async () => {
    const gateway = await startTestGateway();
    for (const token of ['e9', 'e10']) await gateway.connect(token, `of-${token}`);
    const recipients = ['e9', 'e10'].map((token, position) => ({ token, position }));
    for (const some of [recipients, recipients.slice(1)]) {
      const send = (plan: Partial<DispatchPlan>) =>
        dispatcher.dispatchToDevices(DELIVERY, some, { ...leaveWithin(500), ...plan });
      const deadline = performance.now() + 500;
      const includes = (position: number) => position === 0;
      const withheld = await send({ beforeSend: async () => undefined });
      expect([...withheld]).toEqual([]);
      const sent = await send({ beforeSend: async () => ({ deadline, includes }) });
      expect([...sent.keys()]).toEqual(some === recipients ? [0] : []);
    }
    expect(gateway.deliveries).toHaveLength(1);
  });

  test('leaves its replies for the successor of a worker that was killed', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('e7', 'k1');
    const delivery = { ...DELIVERY, claim: 'dead' };
    await dispatcher.dispatchToDevices(delivery, [{ token: 'e7', position: 5 }], leaveWithin(500));
    const readTime = async () => timeToMs(await redis.time());
    const repliedBy = await readTime();
    const lapsedBy = await until(async () => {
      const now = await readTime();
      return now > repliedBy + 1_000 ? now : undefined;
    });
    const successor = await createDispatcher(presence);
    const replies = await successor.readReplies(dispatcher.replyStream, 'dead');
    expect(replies).toEqual(new Map([[5, { result: 'acknowledged', ageMs: expect.any(Number) }]]));
    // The age is that of the reply: longer than the successor has been there.
    expect(replies.get(5)?.ageMs).toBeGreaterThan(lapsedBy - repliedBy - 500);
    await successor.close();
  });
});

test('a Redis that runs no scripts is found at the start', async () => {
  await expect(pingRedis(server)).resolves.toBeUndefined();
  await redis.acl('SETUSER', 'noscript', 'on', '>secret', '~*', '&*', '+@all', '-eval');
  const url = server.url.replace('//', '//noscript:secret@');
  await expect(pingRedis({ url })).rejects.toThrow(/NOPERM/);
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
