import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { createSlots, type Slot } from '../src/slots.ts';
import { freePort, startRedis, type TestServer } from './start-server.ts';

let server: TestServer;
let processes: [PresenceServer, PresenceServer];
beforeAll(async () => {
  server = await startRedis();
  const connect = () => connectPresence({ url: `redis://127.0.0.1:${server.port}` });
  processes = [await connect(), await connect()];
});
afterAll(async () => {
  for (const presence of processes ?? []) presence.close();
  await server?.stop();
});

const errors: Error[] = [];
const slotsOf = (presence: PresenceServer) =>
  createSlots(presence, 2, (error) => errors.push(error));

async function acquireAll(...acquiring: Promise<Slot | undefined>[]): Promise<Slot[]> {
  const slots = (await Promise.all(acquiring)).filter((slot) => slot !== undefined);
  expect(slots).toHaveLength(acquiring.length);
  return slots;
}

test('two holders of a key have a slot, a third has none until one is released', async () => {
  const [one, other] = processes.map(slotsOf) as [
    ReturnType<typeof slotsOf>,
    ReturnType<typeof slotsOf>,
  ];
  const held = await acquireAll(one.acquire('a'), other.acquire('a'), other.acquire('b'));
  expect(await one.acquire('a')).toBeUndefined();
  held[1]?.release();
  held[1]?.release();
  // The processes have a connection each: Redis may execute the acquisition of one before the other's release.
  await processes[1].redis.ping();
  held.push(...(await acquireAll(one.acquire('a'))));
  expect(await other.acquire('a')).toBeUndefined();
  for (const slot of held) slot.release();
  expect(errors).toEqual([]);
});

test('a slot whose process died is free after its lease', async () => {
  const [presence] = processes;
  await presence.redis.zadd('slots:dead', 1, 'one', 1, 'two');
  for (const slot of await acquireAll(slotsOf(presence).acquire('dead'))) slot.release();
  expect(errors).toEqual([]);
});

test('without Redis each process counts alone', async () => {
  const nowhere = await connectPresence({ url: `redis://127.0.0.1:${await freePort()}` });
  const slots = slotsOf(nowhere);
  const held = await acquireAll(slots.acquire('a'), slots.acquire('a'));
  expect(await slots.acquire('a')).toBeUndefined();
  held[0]?.release();
  held.push(...(await acquireAll(slots.acquire('a'))));
  for (const slot of held) slot.release();
  nowhere.close();
  expect(errors.length).toBeGreaterThan(0);
});
