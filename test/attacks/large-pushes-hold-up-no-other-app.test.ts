import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { requestOnce } from '../support/guarantees/request-once.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';

const LARGE = 6;
const TOKENS = 40_000;
/** More than a batch has, and so few that the request has no more time than others. */
const SOME_TOKENS = 1_500;
/** Answers of an app that sends one push after the other: fewer mean that it waits for the large ones. */
const ANSWERS = 20;
/** Answers of the small app between two pushes of the neighbour. */
const EVERY = 5;
/** Far in the future, so that only accepting is compared. */
const IN_AN_HOUR = Math.floor(Date.now() / 1_000) + 3_600;

let stack: Stack;
let mongo: TestMongo;
let large: TestTenant;
let other: TestTenant;
let small: TestTenant;
/** Another app of the account that sends large pushes. */
let neighbour: TestTenant;
let bodies: Map<TestTenant, string>;
beforeAll(async () => {
  stack = await startStack();
  mongo = await openMongo(stack.dev);
  [large, other, small] = (await Promise.all([1, 2, 3].map(createTenant))) as [
    TestTenant,
    TestTenant,
    TestTenant,
  ];
  neighbour = await createTestTenant(stack, { account: large.account });
  bodies = new Map([
    [neighbour, await createBody(neighbour, SOME_TOKENS)],
    [large, await createBody(large, TOKENS)],
    [other, await createBody(other, TOKENS)],
    [small, await createBody(small, 1)],
  ]);
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

const createTenant = () => createTestTenant(stack, { limit: null });

async function createBody(tenant: TestTenant, registered: number): Promise<string> {
  const { tokens } = await createDevicePool({ ...stack, dev: tenant.dev }, mongo, {
    ...{ registered, real: 0 },
  });
  return JSON.stringify({ to: tokens, data: {}, schedule: IN_AN_HOUR });
}

function send({ dev }: TestTenant, body: string) {
  const url = new URL(`/push?api_key=${dev.apiKey}`, dev.api);
  return requestOnce({ method: 'POST', url, headers: {}, body });
}

/** Sends a push again after each Retry-After. Returns the statuses. */
async function sendUntilAccepted(tenant: TestTenant): Promise<number[]> {
  const statuses: number[] = [];
  while (statuses.at(-1) !== 200 && statuses.length < 20) {
    const { status, retryAfter } = await send(tenant, bodies.get(tenant) ?? '');
    statuses.push(status);
    if (status !== 200) await sleep(Number(retryAfter) * 1_000);
  }
  return statuses;
}

test('while an app sends large pushes at once, others have their answers, also with some more tokens, and a large push of a third its turn', async () => {
  const order: TestTenant[] = [];
  const finish = async (tenant: TestTenant) => {
    const statuses = await sendUntilAccepted(tenant);
    order.push(tenant);
    return statuses;
  };
  const sentLarge = Promise.all(Array.from({ length: LARGE }, () => finish(large)));
  const sentOther = finish(other);
  let isOver = false;
  const over = Promise.all([sentLarge, sentOther]).finally(() => {
    isOver = true;
  });
  const answers: number[] = [];
  while (!isOver) {
    answers.push((await send(small, bodies.get(small) ?? '')).status);
    order.push(small);
    if (order.length % EVERY === 0)
      answers.push((await send(neighbour, bodies.get(neighbour) ?? '')).status);
  }
  const [statuses, statusesOfOther] = await over;

  const all = [...statuses, statusesOfOther];
  expect(all.map((those) => those.at(-1))).toEqual(all.map(() => 200));
  expect(all.flat().filter((status) => status !== 200 && status !== 503)).toEqual([]);
  expect(new Set(answers)).toEqual(new Set([200]));
  // One after the other: between any two of them the small pushes have gone on.
  const ends = [-1, ...order.flatMap((tenant, at) => (tenant === large ? [at] : []))];
  const between = ends.slice(1).map((end, n) => end - (ends[n] ?? 0) - 1);
  process.stdout.write(`answers between the large pushes: ${between.join(', ')}\n`);
  expect(between.reduce((sum, count) => sum + count)).toBeGreaterThan(ANSWERS);
  expect(between.filter((count) => count > 0).length).toBeGreaterThan(LARGE / 2);
  const before = order.slice(0, order.indexOf(other)).filter((tenant) => tenant === large);
  expect(before.length).toBeLessThan(LARGE / 2);
});
