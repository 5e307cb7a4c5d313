import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createDeviceDispatch } from '../src/device-dispatch.ts';
import { createDispatcher, type Delivery, type Dispatcher } from '../src/dispatcher.ts';
import { createPresenceReader } from '../src/presence-reader.ts';
import { connectRedis } from '../src/redis.ts';
import { connectShards, type Shards } from '../src/shards.ts';
import { freePort, startRedis } from './start-server.ts';
import { leaveWithin, openTestGateway, type TestGateway } from './test-gateway.ts';

const DELIVERY: Delivery = {
  ...{ push: 'p1', work: 'p1', claim: 'c1', payload: '{}' },
  expiresAt: Date.now() + 60_000,
};
/** More than one second, so that a busy machine is not late. */
const DEADLINE_MS = 5_000;
const DEVICES = 20;

let servers: Awaited<ReturnType<typeof startRedis>>[];
let shards: Shards;
let dispatcher: Dispatcher;
let gateway: TestGateway;
const tokens = Array.from({ length: DEVICES }, (_, n) => `device${n}`);

beforeAll(async () => {
  servers = [await startRedis(), await startRedis()];
  const url = servers.map((server) => server.url).join();
  shards = await connectShards({ url });
  dispatcher = await createDispatcher(shards);
  gateway = await openTestGateway(url);
  await Promise.all(tokens.map((token) => gateway.connect(token, `of-${token}`)));
  const reader = createPresenceReader(shards);
  // The gateway gets its lease on each server by itself.
  await until(async () => {
    const found = await reader.lookup(tokens);
    return found.every((presence) => typeof presence === 'object');
  });
});
afterAll(async () => {
  await gateway?.channel.close();
  await dispatcher?.close();
  shards?.close();
  await Promise.all((servers ?? []).map((server) => server.stop()));
});

async function dispatchTo(token: string) {
  const delivery = { ...DELIVERY, claim: `claim-${token}` };
  const recipients = [{ token, position: 0 }];
  return (await dispatcher.dispatchToDevices(delivery, recipients, leaveWithin(DEADLINE_MS))).get(
    0,
  );
}

test('each is sent over the server of its device', async () => {
  expect(new Set(tokens.map((token) => shards.of(token).index)).size).toBe(2);
  const results = await Promise.all(tokens.map(dispatchTo));
  expect(results).toEqual(tokens.map(() => 'acknowledged'));
  expect(gateway.deliveries.map(({ claim }) => claim).sort()).toEqual(
    tokens.map((token) => `claim-${token}`).sort(),
  );
});

test('a server that has become a replica is queried over a new connection', async () => {
  const server = await startRedis();
  const redis = await connectRedis(server);
  const own = await connectShards(server);
  const [shard] = own.all;
  if (shard === undefined) throw new Error('there is no shard');
  try {
    await redis.mset('p:d', 'gateway|connection|1', 'g:gateway', '1');
    await redis.xadd('h:gateway', '*', 'begin', '');
    await redis.call('REPLICAOF', '127.0.0.1', await freePort());
    const reconnecting = once(shard.redis, 'reconnecting');
    const { send } = createDeviceDispatch(shard);
    await expect(send({ token: 'd', fields: ['a', 'b'] })).rejects.toThrow();
    await reconnecting;
    expect(await redis.xlen('h:gateway')).toBe(1);
  } finally {
    own.close();
    redis.disconnect();
    await server.stop();
  }
});

test('only the dispatch over a server that fails is without a result', async () => {
  const [failing] = servers;
  const [onFailing = '', onOther = ''] = [0, 1].map((index) =>
    tokens.find((token) => shards.of(token).name.endsWith(`:${servers[index]?.port}`)),
  );
  await failing?.stop();
  await expect(dispatchTo(onFailing)).rejects.toThrow();
  await expect(dispatchTo(onFailing)).rejects.toThrow();
  expect(await dispatchTo(onOther)).toBe('acknowledged');
});
