import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import { workStates } from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf, expectWhole } from '../support/faults/whole.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 100_000, real: 20 };
const BATCHES = 100;
const SMALL_PUSHES = 40;

/** A mongod killed among 100,000 inserts first replays its journal, on a machine that does other things too. */
const JOURNAL_REPLAYED = { timeoutMs: 45_000, what: 'the API to answer again' };

const UNDER_WAY_MS = 100;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene(CROWD);
});
afterAll(() => scene?.close());

test('an API killed before the commit has accepted nothing, and told nobody it had', async () => {
  const { stack, mongo } = scene;
  const { attempt, id } = await stopHalfAccepted();
  const old = stack.kill('api', 'SIGKILL');
  expect(await stateOf(id)).toBe('accepting');
  const { isAccepted, payload } = await attempt;
  expect(isAccepted).toBe(false);
  await stack.waitForRestart('api', old);
  const { json } = await stack.api('GET', `/pushes/${id}`);
  expect(json).toMatchObject({ code: 'INVALID_PUSH_ID' });
  await expectNowhere(payload);
  expect(await workStates(mongo, { id })).toMatchObject({ ready: 0, closed: 0 });
});

test('an API killed after the commit has accepted the whole push', async () => {
  const { stack, crowd } = scene;
  const untilHalfAccepted = await watchAccepting();
  const attempt = attemptPush(stack, crowd.tokens);
  const id = await untilHalfAccepted();
  await until(async () => (await stateOf(id)) === 'open', { everyMs: 0 });
  const old = stack.kill('api', 'SIGKILL');
  const { payload } = await attempt;
  await stack.waitForRestart('api', old);
  const push = { id, payload, devices: crowd.tokens.length };
  await expectWhole(scene, push, 'API killed after the commit');
});

test('with mongod killed in the middle of accepting, every push that got its 200 is whole', async () => {
  const { stack, crowd } = scene;
  const tokens = crowd.devices.map(({ token }) => token);
  const untilHalfAccepted = await watchAccepting();
  const big = attemptPush(stack, crowd.tokens);
  const small = Array.from({ length: SMALL_PUSHES }, () => attemptPush(stack, tokens));
  const id = await untilHalfAccepted();
  const old = stack.kill('mongodb', 'SIGKILL');
  const attempts = await Promise.all(small);
  await stack.waitForRestart('mongodb', old);
  await until(apiAnswers, JOURNAL_REPLAYED);
  for (const attempt of attempts) await expectArrivedIfAccepted(attempt);
  await expectWholeOrAbsent(id, await big);
}, 150_000);

test('what was answered right before mongod is killed is there after', async () => {
  const { stack, crowd } = scene;
  const tokens = crowd.devices.map(({ token }) => token);
  const attempts = await Promise.all(Array.from({ length: 10 }, () => attemptPush(stack, tokens)));
  const old = stack.kill('mongodb', 'SIGKILL');
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  await stack.waitForRestart('mongodb', old);
  await until(apiAnswers, JOURNAL_REPLAYED);
  for (const attempt of attempts) await expectArrivedIfAccepted(attempt);
}, 150_000);

async function apiAnswers(): Promise<boolean> {
  return (await scene.stack.api('GET', '/topics')).status === 200;
}

/** A push whose API stands still before its commit; one that was committed first is let go, and another tried. */
async function stopHalfAccepted(): Promise<{ attempt: Promise<Attempt>; id: string }> {
  const { stack, crowd } = scene;
  for (;;) {
    const untilHalfAccepted = await watchAccepting();
    const attempt = attemptPush(stack, crowd.tokens);
    const id = await untilHalfAccepted();
    stack.kill('api', 'SIGSTOP');
    // What was on its way to MongoDB has come there.
    await sleep(UNDER_WAY_MS);
    if ((await stateOf(id)) === 'accepting') return { attempt, id };
    stack.kill('api', 'SIGCONT');
    await attempt;
  }
}

/**
 * Looks which pushes are being accepted already. What it gives waits until some batches of another one are there, and
 * not all.
 */
async function watchAccepting(): Promise<() => Promise<string>> {
  const { db } = scene.mongo;
  const known = await db.collection('pushes').distinct('_id', { state: 'accepting' });
  const halfAccepted = async () => {
    const fresh = { state: 'accepting', _id: { $nin: known } };
    const push = await db.collection('pushes').findOne(fresh, { projection: { _id: 1 } });
    if (push === null) return undefined;
    const id = String(push._id);
    const batches = await db.collection('batches').countDocuments({ push: id });
    return batches > 0 && batches < BATCHES && id;
  };
  return () => until(halfAccepted, { everyMs: 0, what: 'a push that is half accepted' });
}

async function stateOf(_id: string): Promise<string | undefined> {
  const pushes = scene.mongo.db.collection<{ _id: string; state: string }>('pushes');
  return (await pushes.findOne({ _id }))?.state;
}

/** No device has it, although one sent later has arrived everywhere. */
async function expectNowhere(payload: string): Promise<void> {
  const { stack, crowd } = scene;
  const later = await attemptPush(
    stack,
    crowd.devices.map(({ token }) => token),
  );
  await expectArrivedIfAccepted(later);
  const arrivals = crowd.devices.flatMap((device) => device.arrivals);
  expect(arrivals.filter((arrival) => arrival.payload === payload)).toEqual([]);
}

async function expectArrivedIfAccepted(attempt: Attempt): Promise<void> {
  if (!attempt.isAccepted) return;
  const isHere = () => scene.crowd.devices.every((device) => countOf(device, attempt.push) > 0);
  await until(isHere, { timeoutMs: 40_000, what: `push ${attempt.push.id} at every device` });
}

/** An unknown answer leaves two ends, and nothing in between (guarantee G2). */
async function expectWholeOrAbsent(id: string, attempt: Attempt): Promise<void> {
  const isOpen = (await stateOf(id)) === 'open';
  process.stdout.write(`mongod killed: ${attempt.isAccepted}, push there: ${isOpen}\n`);
  if (attempt.isAccepted) expect(isOpen).toBe(true);
  if (!isOpen) return expectNowhere(attempt.payload);
  const push = { id, payload: attempt.payload, devices: scene.crowd.tokens.length };
  await expectWhole(scene, push, 'mongod killed while it accepted');
}
