import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool } from '../support/faults/device-pool.ts';
import {
  countBatchStates,
  isPartlyClosed,
  pushStatusOf,
  sendPush,
  untilOutcomes,
} from '../support/faults/pushes.ts';
import { createFleet, pendingPushesOf } from '../support/guarantees/devices.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { getPushStatus, untilNotPending, untilPending } from '../support/guarantees/status.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const RETENTION_SECONDS = 5;
const MOST_LISTED = 1_000;
const WORKER = [{ service: 'delivery-worker' }];

let stack: Stack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await startStackWithoutLimits({
    env: { CARILLON_RETENTION_SECONDS: `${RETENTION_SECONDS}` },
  });
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

async function pendingDevicesOf(push: { id: string }): Promise<string[]> {
  return (await getPushStatus(stack, push)).push?.pending_devices ?? [];
}

test('before a worker has claimed the push all are pending', async () => {
  const online = await fleet.online();
  const offline = await fleet.offline();
  const tokens = [online.token, offline.token];
  const push = await whileFrozen(stack, WORKER, async () => {
    const sent = await sendPush(stack, tokens);
    expect((await pendingDevicesOf(sent)).sort()).toEqual([...tokens].sort());
    return sent;
  });
  await untilPending(stack, push, [offline.token]);
});

test('each receipt removes its device from the list', async () => {
  const [one, two, three] = await fleet.createMany(3, 'offline');
  const tokens = [one, two, three].map((device) => device?.token ?? '');
  const push = await sendPush(stack, tokens);
  await untilPending(stack, push, tokens);
  await two?.connect();
  await untilPending(stack, push, [one?.token ?? '', three?.token ?? '']);
  one?.holdReceipts();
  await one?.connect();
  await one?.waitFor(1);
  expect(await pendingDevicesOf(push)).toContain(one?.token);
  one?.releaseReceipts();
  await untilPending(stack, push, [three?.token ?? '']);
});

test('android, electron and python devices are tracked', async () => {
  const platforms = ['android', 'electron', 'python'];
  const devices = await Promise.all(platforms.map((platform) => fleet.offline(platform)));
  const tokens = devices.map(({ token }) => token);
  const push = await sendPush(stack, tokens);
  await untilPending(stack, push, tokens);
  for (const token of tokens) {
    await until(async () => (await pendingPushesOf(stack, token))[0]?.id === push.id);
  }
});

test('browsers are not tracked', async () => {
  const browser = await registerBrowser(stack.dev);
  const { token } = await fleet.offline();
  const push = await whileFrozen(stack, WORKER, async () => {
    const sent = await sendPush(stack, [browser.token, token]);
    expect(sent.devices).toBe(2);
    expect(await pendingDevicesOf(sent)).toEqual([token]);
    // Before a worker could call a browser's push service, which is outside.
    await stack.api('DELETE', `/pushes/${sent.id}`);
    return sent;
  });
  await untilOutcomes(mongo, push, { deleted: 2 });
  expect(await pendingPushesOf(stack, browser.token)).toEqual([]);
});

test('of a large push 1,000 are listed, from the inbox and from open batches', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 5_000, real: 0 });
  const known = new Set(pool.tokens);
  const push = await whileFrozen(stack, WORKER, () => sendPush(stack, pool.tokens));
  const listed: string[][] = [];
  const isSettled = async () => {
    listed.push(await pendingDevicesOf(push));
    return (await pushStatusOf(mongo, push)).outcomes.inbox === 5_000;
  };
  await until(isSettled, { timeoutMs: 30_000, everyMs: 1 });
  for (const tokens of listed) {
    expect(new Set(tokens).size).toBe(MOST_LISTED);
    expect(tokens.filter((token) => !known.has(token))).toEqual([]);
  }
});

test('devices of closed and of open batches are in one list', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 1_400, real: 800 });
  const [first] = pool.tokens.toSorted();
  const holder = pool.devices.find(({ token }) => token === first) ?? pool.devices[0];
  holder?.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await until(async () => isPartlyClosed(await countBatchStates(mongo, push)), { everyMs: 2 });
  const offline = pool.tokens.slice(800);
  await whileFrozen(stack, WORKER, async () => {
    expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
    const { outcomes } = await pushStatusOf(mongo, push);
    const listed = await pendingDevicesOf(push);
    expect(listed).toHaveLength(Math.min(1_400 - (outcomes.delivered ?? 0), MOST_LISTED));
    if (listed.length < MOST_LISTED) expect(listed).toEqual(expect.arrayContaining(offline));
  });
  holder?.releaseReceipts();
  await untilPending(stack, push, offline);
  await Promise.all(pool.devices.map((device) => device.disconnect()));
});

test('a push delivered to all has its status until the retention is over', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token);
  await untilOutcomes(mongo, push, { delivered: 1 });
  const deliveredAt = performance.now();
  expect((await getPushStatus(stack, push)).push?.pending_devices).toEqual([]);
  await untilNotPending(stack, push);
  const seconds = (performance.now() - deliveredAt) / 1_000;
  expect(Math.ceil(seconds)).toBeGreaterThanOrEqual(RETENTION_SECONDS);
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).json.code).toBe('INVALID_PUSH_ID');
});
