import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { gatherCrowd } from '../support/faults/crowd.ts';
import { fatesOf, isMidway, sendPush, untilFates, workStates } from '../support/faults/pushes.ts';
import { createFleet, pendingAt } from '../support/guarantees/devices.ts';
import { whileHeld } from '../support/guarantees/hold.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { startUnlimited } from '../support/guarantees/start-unlimited.ts';
import { statusOf, untilGone, untilPending } from '../support/guarantees/status.ts';
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
  stack = await startUnlimited({ env: { CARILLON_RETENTION_SECONDS: `${RETENTION_SECONDS}` } });
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

async function pendingOf(push: { id: string }): Promise<string[]> {
  return (await statusOf(stack, push)).push?.pending_devices ?? [];
}

test('before a worker has touched the push it waits for all', async () => {
  const online = await fleet.online();
  const offline = await fleet.offline();
  const tokens = [online.token, offline.token];
  const push = await whileHeld(stack, WORKER, async () => {
    const sent = await sendPush(stack, tokens);
    expect((await pendingOf(sent)).sort()).toEqual([...tokens].sort());
    return sent;
  });
  await untilPending(stack, push, [offline.token]);
});

test('each receipt takes its device off the list', async () => {
  const [one, two, three] = await fleet.some(3, 'offline');
  const tokens = [one, two, three].map((device) => device?.token ?? '');
  const push = await sendPush(stack, tokens);
  await untilPending(stack, push, tokens);
  await two?.connect();
  await untilPending(stack, push, [one?.token ?? '', three?.token ?? '']);
  one?.holdReceipts();
  await one?.connect();
  await one?.waitFor(1);
  expect(await pendingOf(push)).toContain(one?.token);
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
    await until(async () => (await pendingAt(stack, token))[0]?.id === push.id);
  }
});

test('browsers are not tracked', async () => {
  const browser = await registerBrowser(stack.dev);
  const { token } = await fleet.offline();
  const push = await whileHeld(stack, WORKER, async () => {
    const sent = await sendPush(stack, [browser.token, token]);
    expect(sent.devices).toBe(2);
    expect(await pendingOf(sent)).toEqual([token]);
    // Before a worker could call a browser's push service, which is outside.
    await stack.api('DELETE', `/pushes/${sent.id}`);
    return sent;
  });
  await untilFates(mongo, push, { deleted: 2 });
  expect(await pendingAt(stack, browser.token)).toEqual([]);
});

test('of a large push a thousand are listed, from the inbox and from work not yet done', async () => {
  const crowd = await gatherCrowd(stack, mongo, { registered: 5_000, real: 0 });
  const known = new Set(crowd.tokens);
  const push = await whileHeld(stack, WORKER, () => sendPush(stack, crowd.tokens));
  const listed: string[][] = [];
  const isWorked = async () => {
    listed.push(await pendingOf(push));
    return (await fatesOf(mongo, push)).outcomes.inbox === 5_000;
  };
  await until(isWorked, { timeoutMs: 30_000, everyMs: 1 });
  for (const tokens of listed) {
    expect(new Set(tokens).size).toBe(MOST_LISTED);
    expect(tokens.filter((token) => !known.has(token))).toEqual([]);
  }
});

test('work that is done and work that is not are one list', async () => {
  const crowd = await gatherCrowd(stack, mongo, { registered: 1_400, real: 800 });
  const [first] = crowd.tokens.toSorted();
  const holder = crowd.devices.find(({ token }) => token === first) ?? crowd.devices[0];
  holder?.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await until(async () => isMidway(await workStates(mongo, push)), { everyMs: 2 });
  const offline = crowd.tokens.slice(800);
  await whileHeld(stack, WORKER, async () => {
    expect(isMidway(await workStates(mongo, push))).toBe(true);
    const { outcomes } = await fatesOf(mongo, push);
    const listed = await pendingOf(push);
    expect(listed).toHaveLength(Math.min(1_400 - (outcomes.delivered ?? 0), MOST_LISTED));
    if (listed.length < MOST_LISTED) expect(listed).toEqual(expect.arrayContaining(offline));
  });
  holder?.releaseReceipts();
  await untilPending(stack, push, offline);
  await Promise.all(crowd.devices.map((device) => device.disconnect()));
});

test('delivered to all it can be asked for until the retention is over', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token);
  await untilFates(mongo, push, { delivered: 1 });
  const deliveredAt = performance.now();
  expect((await statusOf(stack, push)).push?.pending_devices).toEqual([]);
  await untilGone(stack, push);
  const seconds = (performance.now() - deliveredAt) / 1_000;
  expect(Math.ceil(seconds)).toBeGreaterThanOrEqual(RETENTION_SECONDS);
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).json.code).toBe('INVALID_PUSH_ID');
});
