import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  createGatewayLink,
  type GatewayLink,
  type HandedOver,
  type Link,
} from '../src/gateway-link.ts';
import { createHandOver, type Delivery, type HandOver } from '../src/hand-over.ts';
import type { Place } from '../src/keys.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import type { Answer } from '../src/replies.ts';
import { createWhoIsOnline, type WhoIsOnline } from '../src/who-is-online.ts';
import { startRedis } from './start-server.ts';

const DELIVERY: Delivery = {
  push: 'p1',
  work: 'p1',
  claim: 'c1',
  expiresAt: Date.now() + 60_000,
  payload: '{"text":"grüß dich"}',
};

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let worker: HandOver;
let online: WhoIsOnline;
let gateways: TestGateway[];

/** A gateway that answers every recipient as told and keeps what it heard. */
interface TestGateway {
  link: GatewayLink;
  open: Map<string, string>;
  deliveries: HandedOver[];
  drained: string[];
  kicked: Link[];
  announced: Link[];
  answer: Answer | undefined;
  credit: number;
}

async function startTestGateway(): Promise<TestGateway> {
  const open = new Map<string, string>();
  const gateway: Omit<TestGateway, 'link'> & { link?: GatewayLink } = {
    open,
    deliveries: [],
    drained: [],
    kicked: [],
    announced: [],
    answer: 'acknowledged',
    credit: 1_000,
  };
  gateway.link = await createGatewayLink(server.url, {
    async deliver(delivery) {
      gateway.deliveries.push(delivery);
      for (const position of delivery.positions) {
        if (gateway.answer) gateway.link?.answer({ ...delivery, position }, gateway.answer);
      }
    },
    drain: (token) => gateway.drained.push(token),
    kick: (link) => gateway.kicked.push(link),
    announced: (link) => gateway.announced.push(link),
    links: () => [...open].map(([token, connection]) => ({ token, connection })),
    isHere: ({ token, connection }) => open.get(token) === connection,
    credit: () => gateway.credit,
  });
  const started = gateway as TestGateway;
  await until(() => started.link.isHeld());
  gateways.push(started);
  return started;
}

async function announce(gateway: TestGateway, token: string, connection: string): Promise<void> {
  gateway.open.set(token, connection);
  await gateway.link.announce({ token, connection });
}

async function placeOf(token: string): Promise<Place> {
  const [place] = await online.look([token]);
  if (place === undefined) throw new Error(`${token} is offline`);
  return place;
}

beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server.url);
  worker = await createHandOver({ url: server.url });
  online = createWhoIsOnline(redis);
});

afterAll(async () => {
  await worker.close();
  redis.disconnect();
  await server.stop();
});

beforeEach(() => {
  gateways = [];
});

afterEach(async () => {
  for (const { link } of gateways) await link.close();
});

describe('presence', () => {
  test('a device is online while its connection and its gateway live', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'd1', 'k1');
    expect(await online.look(['nobody', 'd1'])).toEqual([
      undefined,
      { gateway: expect.any(String), connection: 'k1', credit: 1_000 },
    ]);
    await gateway.link.close();
    expect(await online.look(['d1'])).toEqual([undefined]);
  });

  test('the later connection of a device wins, and the older one is told', async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    await announce(first, 'd2', 'k1');
    await announce(second, 'd2', 'k2');
    await until(() => first.kicked.length > 0);
    expect(first.kicked).toEqual([{ token: 'd2', connection: 'k1' }]);
    await first.link.withdraw({ token: 'd2', connection: 'k1' });
    expect((await placeOf('d2')).connection).toBe('k2');
  });

  test('a connection that closed before it was announced is not announced', async () => {
    const gateway = await startTestGateway();
    await gateway.link.announce({ token: 'd3', connection: 'closed' });
    expect(await online.look(['d3'])).toEqual([undefined]);
  });

  test('after Redis was emptied every connection is announced again under a new identity', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'd4', 'k1');
    const before = await placeOf('d4');
    await redis.flushall();
    const after = await until(() => placeOf('d4'));
    expect(after.gateway).not.toBe(before.gateway);
    await until(() => gateway.announced.length === 1);
  });
});

describe('a hand-over', () => {
  test("reaches the device's gateway whole and comes back with an answer for each", async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    second.answer = 'draining';
    await announce(first, 'e1', 'k1');
    await announce(second, 'e2', 'k2');
    const recipients = [
      { token: 'e1', position: 3, place: await placeOf('e1') },
      { token: 'e2', position: 999, place: await placeOf('e2') },
    ];
    const answers = await worker.handOver(DELIVERY, recipients, 500);
    expect(answers).toEqual(
      new Map([
        [3, 'acknowledged'],
        [999, 'draining'],
      ]),
    );
    expect(first.deliveries).toMatchObject([{ ...DELIVERY, tokens: ['e1'], positions: [3] }]);
  });

  test("carries its deadline in Redis's time", async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'e3', 'k1');
    const place = await placeOf('e3');
    await worker.handOver(DELIVERY, [{ token: 'e3', position: 0, place }], 400);
    const [delivery] = gateway.deliveries;
    const left = (delivery?.deadline ?? 0) - gateway.link.now();
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThan(401);
  });

  test('to a gateway that is gone is answered at once', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'e4', 'k1');
    const place = await placeOf('e4');
    await gateway.link.close();
    const answers = await worker.handOver(DELIVERY, [{ token: 'e4', position: 0, place }], 500);
    expect(answers).toEqual(new Map([[0, 'not-here']]));
  });

  test('to a gateway without credit is not made', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'e5', 'k1');
    const place = { ...(await placeOf('e5')), credit: 0 };
    const answers = await worker.handOver(DELIVERY, [{ token: 'e5', position: 7, place }], 500);
    expect(answers).toEqual(new Map([[7, 'not-written']]));
    expect(gateway.deliveries).toEqual([]);
  });

  test('that nobody answers ends by itself', async () => {
    const gateway = await startTestGateway();
    gateway.answer = undefined;
    await announce(gateway, 'e6', 'k1');
    const place = await placeOf('e6');
    const answers = await worker.handOver(DELIVERY, [{ token: 'e6', position: 0, place }], 10);
    expect(answers).toEqual(new Map([[0, 'unanswered']]));
  });

  test('leaves its answers for the successor of a worker that died', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'e7', 'k1');
    const place = await placeOf('e7');
    const delivery = { ...DELIVERY, claim: 'dead' };
    await worker.handOver(delivery, [{ token: 'e7', position: 5, place }], 500);
    const successor = await createHandOver({ url: server.url });
    expect(await successor.readReplies(worker.replyStream, 'dead')).toEqual(
      new Map([[5, 'acknowledged']]),
    );
    await successor.close();
  });

  test('a drain note reaches the gateway', async () => {
    const gateway = await startTestGateway();
    await announce(gateway, 'e8', 'k1');
    await worker.drain([{ token: 'e8', place: await placeOf('e8') }]);
    await until(() => gateway.drained.includes('e8'));
  });
});
