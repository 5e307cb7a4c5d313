import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newPushId } from '../../packages/core/src/ids.ts';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import { bytesOf, numberAt } from '../../packages/store/src/bytes.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { workOf } from '../../packages/store/src/new-work.ts';
import { connectStore, type Store } from '../../packages/store/src/store.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const CROWD = 120;
/** More than there are. */
const MANY = 10_000;
const LEASE_MS = 60_000;
const RETENTION_MS = 3_600_000;

let stack: Stack;
let store: Store;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await startStack();
  // A database of its own: the stack's workers must not take what lies here.
  const mongodb = stack.dev.mongodb.replace('/carillon', '/crowd');
  mongo = await openMongo({ mongodb });
  store = await connectStore({ uri: mongodb, appName: 'test' });
});
afterAll(async () => {
  await store?.close();
  await mongo?.close();
  await stack?.stop();
});

const tokenOf = (n: number) => `device${n}`;
const pushes = () => mongo.db.collection<PushDocument>('pushes');

/** Pushes that each hold the work of one device. */
async function keepPushes(count: number): Promise<string[]> {
  const now = new Date();
  const documents = Array.from({ length: count }, (_, n): PushDocument => {
    const _id = newPushId(Date.now());
    const work = workOf('mqtt', [tokenOf(n)], 'ready', now);
    const until = new Date(Date.now() + LEASE_MS);
    const times = { acceptedAt: now, expiresAt: until, sendUntil: until };
    const fan = { seq: 0, next: 0, done: true };
    return { _id, app: 'app', state: 'open', ...times, data: '{}', devices: 1, fan, work };
  });
  await pushes().insertMany(documents);
  return documents.map(({ _id }) => _id);
}

async function claimAll(ids: readonly string[], leaseMs = LEASE_MS) {
  return Promise.all(ids.map((id, n) => store.work.claim(id, `reply${n}`, leaseMs)));
}

const settlement = (id: string, claim: string, n: number) => ({
  id,
  claim,
  outcomes: Uint8Array.of(n % 2 === 0 ? OUTCOMES.delivered : OUTCOMES.inbox),
  ms: Uint32Array.of(n),
});

test('claimed at once, each has a claim of its own, and nobody gets it twice', async () => {
  const ids = await keepPushes(CROWD);
  const claims = await claimAll(ids);
  expect(claims.map((one) => one?.id)).toEqual(ids);
  expect(claims.map((one) => one?.view?._id)).toEqual(ids);
  expect(claims.map((one) => one?.work.reply)).toEqual(ids.map((_, n) => `reply${n}`));
  expect(new Set(claims.map((one) => one?.claim)).size).toBe(CROWD);
  expect(await claimAll(ids)).toEqual(ids.map(() => undefined));
});

test('the held, the closed and the deleted are left out of a crowd', async () => {
  const ids = await keepPushes(6);
  const [held = '', closed = '', deleted = '', ...free] = ids;
  await store.work.claim(held, 'reply', LEASE_MS);
  await pushes().updateOne({ _id: closed }, { $set: { 'work.state': 'closed' } });
  await pushes().updateOne({ _id: deleted }, { $set: { state: 'deleted' } });
  const claims = await claimAll([...ids, 'absent']);
  expect(claims.map((one) => one?.id)).toEqual([
    undefined,
    undefined,
    undefined,
    ...free,
    undefined,
  ]);
});

test('asked for twice in one moment, one gets it', async () => {
  const [id = ''] = await keepPushes(1);
  const claims = await claimAll([id, id, id]);
  expect(claims.filter((one) => one !== undefined)).toHaveLength(1);
});

test('settled at once, each has its own outcome, time and end', async () => {
  const ids = await keepPushes(CROWD);
  const claims = await claimAll(ids);
  const purgeAt = (n: number) => new Date(4_000_000_000_000 + n);
  await Promise.all(
    ids.map((id, n) =>
      store.work.settle({
        ...settlement(id, claims[n]?.claim ?? '', n),
        ...(n % 2 === 0 && { finish: { purgeAt: purgeAt(n) } }),
      }),
    ),
  );
  for (const [n, id] of ids.entries()) {
    const isEnd = n % 2 === 0;
    const counts = isEnd ? { delivered: 1 } : { inbox: 1 };
    const push = await pushes().findOne({ _id: id });
    expect(push).toMatchObject({ state: isEnd ? 'finished' : 'open', work: { state: 'closed' } });
    expect(push?.work?.counts).toEqual(counts);
    expect(bytesOf(push?.work?.outcomes)[0]).toBe(isEnd ? OUTCOMES.delivered : OUTCOMES.inbox);
    expect(numberAt(push?.work?.ms, 0)).toBe(n);
    expect(push?.work?.closedAt).toBeInstanceOf(Date);
    expect(push?.counts).toEqual(isEnd ? counts : undefined);
    expect(push?.purgeAt).toEqual(isEnd ? purgeAt(n) : undefined);
    expect(push).not.toHaveProperty('place');
  }
});

test('of two claims of one process on the same work only the later one settles it', async () => {
  const [id = '', other = ''] = await keepPushes(2);
  const lapsed = await store.work.claim(id, 'before', 0);
  const [held, beside] = await claimAll([id, other]);
  const [first, second] = await Promise.all([
    store.work.settle(settlement(id, lapsed?.claim ?? '', 1)),
    store.work.settle(settlement(id, held?.claim ?? '', 2)),
    store.work.settle(settlement(other, beside?.claim ?? '', 3)),
  ]);
  expect([first, second]).toEqual([undefined, { got: {} }]);
  const push = await pushes().findOne({ _id: id });
  expect(push?.work?.counts).toEqual({ delivered: 1 });
});

test('a settlement whose answer was lost on the way is told as what it was', async () => {
  const { port, pathname } = new URL(stack.dev.mongodb.replace('/carillon', '/crowd'));
  const proxy = await startTcpProxy(Number(port));
  const remote = await connectStore({
    uri: `mongodb://127.0.0.1:${proxy.port}${pathname}`,
    appName: 'test',
  });
  try {
    const ids = await keepPushes(CROWD);
    const claims = await claimAll(ids);
    proxy.swallowAnswers();
    const settling = Promise.all(
      ids.map((id, n) => remote.work.settle(settlement(id, claims[n]?.claim ?? '', n))),
    );
    const closed = { _id: { $in: ids }, 'work.state': 'closed' };
    await until(async () => (await pushes().countDocuments(closed as object)) === CROWD);
    proxy.cut();
    proxy.mend();
    expect(await settling).toEqual(ids.map(() => ({ got: {} })));
  } finally {
    await remote.close();
    await proxy.stop();
  }
});

test('receipts of a crowd: each in its work, and its row gone', async () => {
  const ids = await keepPushes(CROWD);
  const rowOf = (id: string, n: number) => ({ token: tokenOf(n), push: id, work: id, position: 0 });
  const rows = ids.map((id, n) => ({ ...rowOf(id, n), sent: true }));
  const [first = '', second = ''] = ids;
  await store.inbox.owe(rows);
  // A newer push of a collapse key has taken the place of the first one's row.
  await store.inbox.owe([{ ...rowOf(second, 0), collapse: 'key', sent: true }]);
  const late = rows.slice(0, -1).map(({ token, push, work, position }) => {
    return { rowId: `${token}:${push}`, push, work, position };
  });
  await store.receipts.record([
    { rowId: `${tokenOf(0)}:~key`, push: first, work: first, position: 0 },
    ...late,
  ]);
  const got = await pushes()
    .find({ _id: { $in: ids } }, { projection: { 'work.got': 1 } })
    .sort({ _id: 1 })
    .toArray();
  const missing = got.filter(({ work }) => work?.got?.['0'] !== 1);
  expect(missing.map(({ _id }) => _id)).toEqual([ids.at(-1)]);
  const left = await mongo.db.collection<{ _id: string }>('inbox').find().toArray();
  expect(left.map(({ _id }) => _id).sort()).toEqual(
    [`${tokenOf(0)}:~key`, `${tokenOf(CROWD - 1)}:${ids.at(-1)}`].sort(),
  );
});

test('looked at in one moment, those that are delivered to all end, each with its counts', async () => {
  const ids = await keepPushes(CROWD);
  const claims = await claimAll(ids);
  const open = ids.slice(-20);
  await Promise.all(
    ids
      .slice(0, -20)
      .map((id, n) => store.work.settle(settlement(id, claims[n]?.claim ?? '', 2 * n))),
  );
  await Promise.all(ids.map((id) => store.endings.finish(id, RETENTION_MS)));
  const ended = await pushes()
    .find({ _id: { $in: ids }, state: 'finished', counts: { delivered: 1 } })
    .toArray();
  expect(ended).toHaveLength(CROWD - open.length);
  expect(ended.every(({ purgeAt }) => (purgeAt?.getTime() ?? 0) > Date.now())).toBe(true);
  expect(await pushes().countDocuments({ _id: { $in: open }, state: 'open' })).toBe(open.length);
});

test('what is hurried while it is claimed is due as soon as it is given back, and nothing else is', async () => {
  const [hurried = '', calm = ''] = await keepPushes(2);
  await pushes().updateOne({ _id: calm }, { $set: { app: 'another app' } });
  const claims = await claimAll([hurried, calm]);
  await store.work.hurry('app', 'mqtt');
  const dueNow = async () => (await store.work.due(MANY)).map(({ id }) => id);
  expect(await dueNow()).not.toContain(hurried);
  for (const one of claims) if (one) await store.work.giveBack(one, LEASE_MS, []);
  const due = await dueNow();
  expect([due.includes(hurried), due.includes(calm)]).toEqual([true, false]);
  const [again] = await claimAll([hurried]);
  if (again) await store.work.giveBack(again, LEASE_MS, []);
  expect(await dueNow()).not.toContain(hurried);
});
