import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { connectRedis, type Redis } from '../src/redis.ts';
import { createSlots, type Slot } from '../src/slots.ts';
import { startRedis, type TestServer } from './start-server.ts';

let server: TestServer;
let connections: [Redis, Redis];
beforeAll(async () => {
  server = await startRedis();
  const connection = () =>
    connectRedis({
      url: `redis://127.0.0.1:${server.port}`,
    });
  connections = [await connection(), await connection()];
});
afterAll(async () => {
  for (const connection of connections ?? []) connection.disconnect();
  await server?.stop();
});

const errors: Error[] = [];
const slotsOf = (connection: Pick<Redis, 'eval'>) =>
  createSlots(connection, 2, (error) => errors.push(error));

async function acquireAll(...acquiring: Promise<Slot | undefined>[]): Promise<Slot[]> {
  const slots = (await Promise.all(acquiring)).filter((slot) => slot !== undefined);
  expect(slots).toHaveLength(acquiring.length);
  return slots;
}

test('two holders of a key have a slot, a third has none until one is released', async () => {
  const [one, other] = connections.map(slotsOf) as [
    ReturnType<typeof slotsOf>,
    ReturnType<typeof slotsOf>,
  ];
  const held = await acquireAll(one.acquire('a'), other.acquire('a'), other.acquire('b'));
  expect(await one.acquire('a')).toBeUndefined();
  held[1]?.release();
  held[1]?.release();
  held.push(...(await acquireAll(one.acquire('a'))));
  expect(await other.acquire('a')).toBeUndefined();
  for (const slot of held) slot.release();
  expect(errors).toEqual([]);
});

test('a slot whose process died is free after its lease', async () => {
  const [connection] = connections;
  await connection.zadd('slots:dead', 1, 'one', 1, 'two');
  for (const slot of await acquireAll(slotsOf(connection).acquire('dead'))) slot.release();
  expect(errors).toEqual([]);
});

test('without Redis each process counts alone', async () => {
  const slots = slotsOf({ eval: () => Promise.reject(new Error('gone')) });
  const held = await acquireAll(slots.acquire('a'), slots.acquire('a'));
  expect(await slots.acquire('a')).toBeUndefined();
  held[0]?.release();
  held.push(...(await acquireAll(slots.acquire('a'))));
  for (const slot of held) slot.release();
  expect(errors.length).toBeGreaterThan(0);
});
