import { OUTCOMES } from '@carillon/core/outcomes';
import { expect, test } from '@jest/globals';
import { readUint32At, toBytes } from '../src/bytes.ts';
import { APP, insertPush, LEASE_MS, newTokens, RETENTION_MS } from './store-under-test.ts';
import { useStore } from './use-store.ts';

const POOL_SIZE = 120;
/** More than there are. */
const LARGE_COUNT = 10_000;

const database = useStore();
const { store } = database;

const pushes = () => database.pushes;
let tokens: string[] = [];

/** Inserts pushes that each hold a batch of one device. */
async function insertPushes(count: number): Promise<string[]> {
  tokens = newTokens(count);
  const inserted = await Promise.all(tokens.map((token) => insertPush(database, [token])));
  return inserted.map(({ id }) => id);
}

const readAll = (ids: readonly string[]) =>
  Promise.all(ids.map((id) => pushes().findOne({ _id: id })));

async function claimAll(ids: readonly string[], leaseMs = LEASE_MS) {
  return Promise.all(ids.map((id, n) => store.batchTable.claim(id, `reply${n}`, leaseMs)));
}

const settlement = (id: string, claim: string, n: number) => ({
  id,
  claim,
  outcomes: Uint8Array.of(n % 2 === 0 ? OUTCOMES.delivered : OUTCOMES.inbox),
  latenciesMs: Uint32Array.of(n),
});

test('batches that are claimed at once get a claim each, and none is claimed twice', async () => {
  const ids = await insertPushes(POOL_SIZE);
  const claims = await claimAll(ids);
  expect(claims.map((one) => one?.id)).toEqual(ids);
  expect(claims.map((one) => one?.sendable?._id)).toEqual(ids);
  expect(claims.map((one) => one?.work.reply)).toEqual(ids.map((_, n) => `reply${n}`));
  expect(new Set(claims.map((one) => one?.claim)).size).toBe(POOL_SIZE);
  expect(await claimAll(ids)).toEqual(ids.map(() => undefined));
});

test('claimed, closed and deleted batches are left out when others are claimed at once', async () => {
  const ids = await insertPushes(6);
  const [held = '', closed = '', deleted = '', ...free] = ids;
  await store.batchTable.claim(held, 'reply', LEASE_MS);
  await pushes().updateOne({ _id: closed }, { $set: { 'work.state': 'closed' } });
  await pushes().updateOne({ _id: deleted }, { $set: { state: 'deleted' } });
  const claims = await claimAll([...ids, 'absent']);
  const none = undefined;
  expect(claims.map((one) => one?.id)).toEqual([none, none, none, ...free, none]);
});

test('batches that are settled at once get their own outcomes, times and end', async () => {
  const ids = await insertPushes(POOL_SIZE);
  const claims = await claimAll(ids);
  const purgeAt = (n: number) => new Date(4_000_000_000_000 + n);
  await Promise.all(
    ids.map((id, n) =>
      store.batchTable.settle({
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
    expect(toBytes(push?.work?.outcomes)[0]).toBe(isEnd ? OUTCOMES.delivered : OUTCOMES.inbox);
    expect(readUint32At(push?.work?.ms, 0)).toBe(n);
    expect(push?.work?.closedAt).toBeInstanceOf(Date);
    expect(push?.counts).toEqual(isEnd ? counts : undefined);
    expect(push?.purgeAt).toEqual(isEnd ? purgeAt(n) : undefined);
    expect(push).not.toHaveProperty('place');
  }
});

test.each([true, false])(
  'a batch settled alone is stored as one settled with others',
  async (ends) => {
    const ids = await insertPushes(3);
    const claims = await claimAll(ids);
    const settle = (n: number) =>
      store.batchTable.settle({
        ...settlement(ids[n] ?? '', claims[n]?.claim ?? '', 2),
        words: [['a provider error', [0]]],
        lateReceipts: true,
        ...(ends && { finish: { purgeAt: new Date(4_000_000_000_000) } }),
      });
    expect(await settle(0)).toEqual({ got: {} });
    expect(await Promise.all([settle(1), settle(2)])).toEqual([{ got: {} }, { got: {} }]);
    const stored = await readAll(ids);
    const [alone, ...together] = stored.map((push) => describeSettled(push ?? {}));
    expect(together).toEqual([alone, alone]);
  },
);

/** Returns a settled push without the fields that differ from push to push; times become their type. */
function describeSettled(push: object): unknown {
  const text = JSON.stringify(push, (name, value: unknown) => {
    if (['_id', 'claim', 'reply', 'tokens', 'tokenHashes'].includes(name)) return '';
    return ['closedAt', 'finishedAt', 'acceptedAt', 'expiresAt', 'sendUntil', 'at'].includes(name)
      ? typeof value
      : value;
  });
  return JSON.parse(text);
}

test('only the later of two claims of one process on a batch settles it', async () => {
  const [id = '', other = ''] = await insertPushes(2);
  const lapsed = await store.batchTable.claim(id, 'before', 0);
  const [held, another] = await claimAll([id, other]);
  const [first, second] = await Promise.all([
    store.batchTable.settle(settlement(id, lapsed?.claim ?? '', 1)),
    store.batchTable.settle(settlement(id, held?.claim ?? '', 2)),
    store.batchTable.settle(settlement(other, another?.claim ?? '', 3)),
  ]);
  expect([first, second]).toEqual([undefined, { got: {} }]);
  const push = await pushes().findOne({ _id: id });
  expect(push?.work?.counts).toEqual({ delivered: 1 });
});

test('settlements that finish their pushes at once take effect only with a claim', async () => {
  const ids = await insertPushes(3);
  const claims = await claimAll(ids);
  const finish = { purgeAt: new Date(4_000_000_000_000) };
  const settle = (n: number, claim = claims[n]?.claim ?? '') =>
    store.batchTable.settle({ ...settlement(ids[n] ?? '', claim, 2), finish });
  const settled = await Promise.all([settle(0), settle(1, 'lost'), settle(2)]);
  expect(settled).toEqual([{ got: {} }, undefined, { got: {} }]);
  const stored = await readAll(ids);
  expect(stored.map((push) => push?.state)).toEqual(['finished', 'open', 'finished']);
});

test('a batch keeps its outcomes if its push is deleted before the settlement that would finish it', async () => {
  const ids = await insertPushes(4);
  const [alone = '', together = '', ended = '', open = ''] = ids;
  const claims = await claimAll(ids);
  for (const id of [alone, together, ended]) await store.pushCompletion.markDeleted(APP, id);
  await store.pushCompletion.completeIfDone(ended, RETENTION_MS);
  const finish = { purgeAt: new Date(4_000_000_000_000) };
  const settle = (id: string) =>
    store.batchTable.settle({
      ...settlement(id, claims[ids.indexOf(id)]?.claim ?? '', 2),
      finish,
    });
  expect(await settle(alone)).toEqual({ got: {} });
  const settled = await Promise.all([together, ended, open].map(settle));
  // The end of a push closes its batch under another claim.
  expect(settled).toEqual([{ got: {} }, undefined, { got: {} }]);
  for (const id of ids) await store.pushCompletion.completeIfDone(id, RETENTION_MS);
  const stored = await readAll(ids);
  expect(stored.map((push) => [push?.state, push?.counts])).toEqual([
    ['deleted', { delivered: 1 }],
    ['deleted', { delivered: 1 }],
    ['deleted', { deleted: 1 }],
    ['finished', { delivered: 1 }],
  ]);
});

test('concurrent receipts are recorded in their batches, and their rows are removed', async () => {
  const ids = await insertPushes(POOL_SIZE);
  const rowOf = (id: string, n: number) => ({
    token: tokens[n] ?? '',
    push: id,
    work: id,
    position: 0,
  });
  const rows = ids.map((id, n) => ({ ...rowOf(id, n), sent: true }));
  const [first = '', second = ''] = ids;
  await store.inbox.enqueue(rows);
  // A newer push of a collapse key has replaced the first one's row.
  await store.inbox.enqueue([{ ...rowOf(second, 0), collapse: 'key', sent: true }]);
  const late = rows.slice(0, -1).map(({ token, push, work, position }) => {
    return { app: APP, rowId: `${token}:${push}`, push, work, position };
  });
  await store.receipts.record([
    { app: APP, rowId: `${tokens[0]}:~key`, push: first, work: first, position: 0 },
    ...late,
  ]);
  const got = await pushes()
    .find({ _id: { $in: ids } }, { projection: { 'work.got': 1 } })
    .sort({ _id: 1 })
    .toArray();
  const missing = got.filter(({ work: batch }) => batch?.got?.['0'] !== 1);
  expect(missing.map(({ _id }) => _id)).toEqual([ids.at(-1)]);
  const left = await database.inbox.find().toArray();
  expect(left.map(({ _id }) => _id).sort()).toEqual(
    [`${tokens[0]}:~key`, `${tokens.at(-1)}:${ids.at(-1)}`].sort(),
  );
});

test('concurrent checks finish the pushes delivered to all, each with its own counts', async () => {
  const ids = await insertPushes(POOL_SIZE);
  const claims = await claimAll(ids);
  const open = ids.slice(-20);
  await Promise.all(
    ids
      .slice(0, -20)
      .map((id, n) => store.batchTable.settle(settlement(id, claims[n]?.claim ?? '', 2 * n))),
  );
  await Promise.all(ids.map((id) => store.pushCompletion.completeIfDone(id, RETENTION_MS)));
  const ended = await pushes()
    .find({ _id: { $in: ids }, state: 'finished', counts: { delivered: 1 } })
    .toArray();
  expect(ended).toHaveLength(POOL_SIZE - open.length);
  expect(ended.every(({ purgeAt }) => (purgeAt?.getTime() ?? 0) > Date.now())).toBe(true);
  expect(await pushes().countDocuments({ _id: { $in: open }, state: 'open' })).toBe(open.length);
});

test('only a batch whose retry was requested while it was claimed is due once it is released', async () => {
  const [requested = '', untouched = ''] = await insertPushes(2);
  await pushes().updateOne({ _id: untouched }, { $set: { app: 'another app' } });
  const claims = await claimAll([requested, untouched]);
  await store.batchTable.retryNow(APP, 'mqtt');
  const dueNow = async () => (await store.batchTable.findDue(LARGE_COUNT)).map(({ id }) => id);
  expect(await dueNow()).not.toContain(requested);
  for (const one of claims)
    if (one) await store.batchTable.releaseClaim(one, { delayMs: LEASE_MS });
  const due = await dueNow();
  expect([due.includes(requested), due.includes(untouched)]).toEqual([true, false]);
  const [again] = await claimAll([requested]);
  if (again) await store.batchTable.releaseClaim(again, { delayMs: LEASE_MS });
  expect(await dueNow()).not.toContain(requested);
});
