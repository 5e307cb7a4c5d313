import { batchId, newPushId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { ClaimedBatch } from '../src/batch-table.ts';
import { readUint32At, toBytes } from '../src/bytes.ts';
import { createBatchDocument } from '../src/create-batches.ts';
import { isSuspected, SUSPECTED_AFTER } from '../src/lapsed-claims.ts';
import { PARKED_AT } from '../src/parked-batches.ts';
import { type Pair, startPair } from './crossings.ts';
import {
  APP,
  complete,
  deliver,
  expire,
  insertPush,
  LEASE_MS,
  markDeleted,
  newTokens,
  profile,
  readBatch,
  SHAPES,
  type Shape,
} from './store-under-test.ts';
import { useStore } from './use-store.ts';

const database = useStore();
const { store } = database;
let pair: Pair;
beforeAll(async () => {
  pair = await startPair(database);
});
afterAll(() => pair?.stop());

const read = (id: string) => readBatch(database, id);

const LATENCIES = Uint32Array.of(1_234);
const TRYING = { position: 0, attempts: 2 };
const SENT = Uint8Array.of(OUTCOMES.sent);
const PROGRESS = { outcomes: SENT, latenciesMs: new Uint32Array(1), deferred: [] };
const RELEASE = { delayMs: 0 };

const settlement = (id: string, claim: string, code: number = OUTCOMES.delivered) => ({
  ...{ id, claim, outcomes: Uint8Array.of(code), latenciesMs: new Uint32Array(1) },
});

describe.each(SHAPES)('a batch %s:', (shape: Shape) => {
  async function insertBatch(): Promise<string> {
    const { batchIds } = await insertPush(database, newTokens(1), { shape });
    return batchIds[0] ?? '';
  }

  /** Claims with a lease that ends at once, as that of a worker that is killed or blocked. */
  async function claim(id: string, leaseMs = 0): Promise<ClaimedBatch> {
    const claimed = await store.batchTable.claim(id, 'reply', leaseMs);
    if (claimed === undefined) throw new Error(`${id} was not claimed`);
    return claimed;
  }

  test('a lapsed claim can neither renew, save, release nor settle', async () => {
    const id = await insertBatch();
    const lapsed = await store.batchTable.claim(id, 'reply1', 0);
    const current = await store.batchTable.claim(id, 'reply2', LEASE_MS);
    expect(await store.batchTable.claim(id, 'reply3', LEASE_MS)).toBeUndefined();
    const { claim: old = '' } = lapsed ?? {};
    expect(current?.work.before).toEqual({ claim: old, reply: 'reply1' });
    expect([...(await store.batchTable.renew([{ id, claim: old }], LEASE_MS))]).toEqual([]);
    const progress = { ...settlement(id, old), deferred: [] };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(false);
    expect(await store.batchTable.releaseClaim({ id, claim: old }, RELEASE)).toBe(false);
    expect(await store.batchTable.settle(settlement(id, old))).toBeUndefined();
    const stored = await read(id);
    expect(stored).toMatchObject({ state: 'ready', claim: current?.claim, tries: 2 });
    expect([stored?.got, stored?.outcomes]).toEqual([undefined, undefined]);
  });

  test('the current claim renews, saves and settles, and nothing follows its settlement', async () => {
    const id = await insertBatch();
    const { claim = '' } = (await store.batchTable.claim(id, 'reply', LEASE_MS)) ?? {};
    expect([...(await store.batchTable.renew([{ id, claim }], LEASE_MS))]).toEqual([claim]);
    const progress = { ...settlement(id, claim, OUTCOMES.sent), deferred: [] };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(true);
    expect(await store.batchTable.settle(settlement(id, claim))).toEqual({ got: {} });
    expect([...(await store.batchTable.renew([{ id, claim }], LEASE_MS))]).toEqual([]);
    expect(await store.batchTable.saveOutcomes(progress)).toBe(false);
    await store.batchTable.releaseClaim({ id, claim }, RELEASE);
    expect(await store.batchTable.claim(id, 'reply', LEASE_MS)).toBeUndefined();
    const stored = await read(id);
    expect([stored?.state, toBytes(stored?.outcomes)[0]]).toEqual(['closed', OUTCOMES.delivered]);
  });

  test('a released batch keeps its saved outcomes, and the latencies of receipts, for the next claim', async () => {
    const id = await insertBatch();
    const { claim = '' } = (await store.batchTable.claim(id, 'reply', LEASE_MS)) ?? {};
    const sent = settlement(id, claim, OUTCOMES.sent);
    await store.batchTable.saveOutcomes({ ...sent, deferred: [[0, 5, 1, 'later']] });
    expect(await read(id)).not.toHaveProperty('ms');
    // A receipt overrides it; the deferrals stay as they were.
    await store.batchTable.saveOutcomes({ ...settlement(id, claim), latenciesMs: LATENCIES });
    await store.batchTable.releaseClaim({ id, claim }, RELEASE);
    const next = await store.batchTable.claim(id, 'reply', LEASE_MS);
    expect(next?.work).toMatchObject({ later: [[0, 5, 1, 'later']] });
    expect(toBytes(next?.work.outcomes)[0]).toBe(OUTCOMES.delivered);
    expect(readUint32At(next?.work.ms, 0)).toBe(1_234);
    expect(next?.work.before).toBeUndefined();
  });

  test('a save keeps the latencies of receipts for a claim that follows without a release', async () => {
    const id = await insertBatch();
    const { claim = '' } = (await store.batchTable.claim(id, 'reply', 0)) ?? {};
    const progress = { ...settlement(id, claim), latenciesMs: LATENCIES, deferred: [] };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(true);
    const next = await store.batchTable.claim(id, 'reply', LEASE_MS);
    expect(readUint32At(next?.work.ms, 0)).toBe(1_234);
  });

  test.each(['deleted', 'expired'])(
    'deliveries that a worker settles soon after their push is %s count',
    async (end) => {
      const push = await insertPush(database, newTokens(1), { shape });
      const [id = ''] = push.batchIds;
      const { claim: held } = await claim(id, LEASE_MS);
      if (end === 'expired') await expire(database, push);
      else await markDeleted(store, push);
      // By then the completion has found the claim, and looks for it again.
      const hold = pair.proxy.holdAt(5);
      const completing = complete(pair.holdable, push);
      await hold.reached;
      expect(await store.batchTable.settle(settlement(id, held))).toEqual({ got: {} });
      hold.release();
      await completing;
      const status = await store.deliveryStatus.statusOfPush(push.id);
      expect(status?.outcomes).toEqual({ delivered: 1 });
    },
  );

  describe('of a paused app', () => {
    beforeEach(async () => {
      const app = { _id: APP, account: 'b'.repeat(24), pausedAt: new Date() };
      await database.db.collection<{ _id: string }>('apps').insertOne(app);
    });
    afterEach(async () => {
      await database.db.collection<{ _id: string }>('apps').deleteOne({ _id: APP });
      await store.suspensions.refresh();
    });

    /** A batch that is parked under a claim that has lapsed. */
    async function park(id: string): Promise<ClaimedBatch> {
      const lapsed = await claim(id);
      await store.suspensions.refresh();
      expect(await store.batchTable.claim(id, 'reply', LEASE_MS)).toBeUndefined();
      expect(await read(id)).toMatchObject({ at: PARKED_AT, claim: lapsed.claim, tries: 1 });
      return lapsed;
    }

    test('that a worker holds is left to it', async () => {
      const id = await insertBatch();
      const held = await claim(id, LEASE_MS);
      await store.suspensions.refresh();
      expect(await store.batchTable.claim(id, 'reply', LEASE_MS)).toBeUndefined();
      expect((await read(id))?.at).toEqual(held.work.at);
      expect(await store.batchTable.settle(settlement(id, held.claim))).toEqual({ got: {} });
    });

    test('is settled by its last worker', async () => {
      const id = await insertBatch();
      const lapsed = await park(id);
      expect(await store.batchTable.settle(settlement(id, lapsed.claim))).toEqual({ got: {} });
      expect((await read(id))?.state).toBe('closed');
    });

    test.each(['released by its last worker', 'to be retried at once'])(
      'is due when it is %s, and then parked again',
      async (how) => {
        const id = await insertBatch();
        const lapsed = await park(id);
        if (how !== 'to be retried at once') {
          expect(await store.batchTable.releaseClaim(lapsed, RELEASE)).toBe(true);
        } else {
          await store.batchTable.retryNow(APP, 'mqtt');
          expect((await read(id))?.at).toEqual(PARKED_AT);
          expect(await store.batchTable.releaseClaim(lapsed, { delayMs: LEASE_MS })).toBe(true);
        }
        expect((await read(id))?.at.getTime()).toBeLessThanOrEqual(Date.now());
        expect(await store.batchTable.claim(id, 'reply', LEASE_MS)).toBeUndefined();
        expect((await read(id))?.at).toEqual(PARKED_AT);
      },
    );

    test.each(['deleted', 'expired'])(
      'ends when its push is %s, which waits for no claim',
      async (end) => {
        const push = await insertPush(database, newTokens(1), { shape });
        await park(push.batchIds[0] ?? '');
        if (end === 'expired') await expire(database, push);
        else await markDeleted(store, push);
        if (end === 'expired') expect(await store.pushCompletion.findDue(1_000)).toContain(push.id);
        const checks = await profile(database, () => complete(store, push), { op: 'query' });
        const forClaims = checks
          .map(({ command }) => JSON.stringify(command.filter ?? {}))
          .filter((text) => text.includes(push.id) && text.includes('work.claim'));
        expect(forClaims).toHaveLength(2);
        expect((await store.deliveryStatus.statusOfPush(push.id))?.outcomes).toEqual({ [end]: 1 });
      },
    );
  });

  async function claimTimes(id: string, times: number): Promise<ClaimedBatch> {
    let claimed = await claim(id);
    for (let n = 1; n < times; n += 1) claimed = await claim(id);
    return claimed;
  }

  test('a batch is suspected after five claims have lapsed', async () => {
    const id = await insertBatch();
    expect(isSuspected((await claimTimes(id, SUSPECTED_AFTER)).work)).toBe(false);
    expect(isSuspected((await claim(id)).work)).toBe(true);
  });

  test('a save, a release and a first claim reset the number', async () => {
    const id = await insertBatch();
    const claimed = await claimTimes(id, 4);
    expect(claimed.work.lapsed).toBe(3);
    await store.batchTable.saveOutcomes({ ...claimed, ...PROGRESS });
    const afterSave = await claim(id);
    expect(afterSave.work.lapsed).toBe(0);
    await claim(id);
    await store.batchTable.releaseClaim(await claim(id, LEASE_MS), { delayMs: 0 });
    expect((await claim(id)).work).not.toHaveProperty('lapsed');
  });

  test('a release of a blocked worker counts', async () => {
    const id = await insertBatch();
    const claimed = await claimTimes(id, SUSPECTED_AFTER + 1);
    const progress = { ...claimed, ...PROGRESS, trying: TRYING, hasLapsed: true };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(true);
    await store.batchTable.releaseClaim(claimed, { delayMs: 0, hasLapsed: true });
    expect(await read(id)).toMatchObject({ lapsed: SUSPECTED_AFTER + 1, trying: TRYING });
    await store.batchTable.releaseClaim(await claim(id, LEASE_MS), { delayMs: 0 });
    expect(await read(id)).toMatchObject({ lapsed: SUSPECTED_AFTER + 1, trying: TRYING });
  });

  test('a save of a blocked worker leaves the number as it is', async () => {
    const id = await insertBatch();
    const claimed = await claimTimes(id, 4);
    const progress = { ...claimed, ...PROGRESS, hasLapsed: true };
    expect(await store.batchTable.saveOutcomes(progress)).toBe(true);
    expect((await claim(id)).work.lapsed).toBe(4);
  });

  test('a suspected batch stays suspected through saves, claims and releases', async () => {
    const id = await insertBatch();
    const claimed = await claimTimes(id, SUSPECTED_AFTER + 1);
    await store.batchTable.saveOutcomes({ ...claimed, ...PROGRESS, trying: TRYING });
    const { work } = await claim(id);
    expect(isSuspected(work)).toBe(true);
    expect(work.trying).toEqual(TRYING);
  });

  test('the end of the push ends the claim of its worker', async () => {
    const push = await insertPush(database, newTokens(1), { shape });
    const [id = ''] = push.batchIds;
    const { claim: held } = await claim(id, LEASE_MS);
    await markDeleted(store, push);
    const startedAt = performance.now();
    await complete(store, push);
    // The results of a dispatch arrive within this time.
    expect(performance.now() - startedAt).toBeGreaterThan(1_500);
    expect(await store.batchTable.settle(settlement(id, held))).toBeUndefined();
    const status = await store.deliveryStatus.statusOfPush(push.id);
    expect(status?.outcomes).toEqual({ deleted: 1 });
  });
});

test('a batch in a push is claimed only while the push is open', async () => {
  const push = await insertPush(database, newTokens(1));
  await database.pushes.updateOne({ _id: push.id }, { $set: { state: 'scheduled' } });
  expect(await store.batchTable.claim(push.id, 'reply', LEASE_MS)).toBeUndefined();
});

test('batches are released in order of their number, also beyond six digits', async () => {
  const push = { _id: newPushId(Date.now()), app: 'app' };
  const numbers = [7, 999_998, 999_999, 1_000_000, 1_000_001, 9_999_999, 10_000_000, 16_000_000];
  const documents = numbers.map((number) =>
    createBatchDocument(push, 'mqtt', newTokens(1), number, 'waiting', new Date(0)),
  );
  await store.batches.insert(documents.toReversed(), async () => true);
  const released: string[] = [];
  for (let maxOpen = 1; maxOpen <= numbers.length; maxOpen += 1) {
    const step = await store.batches.release(push._id, maxOpen);
    released.push(...step.released.map(({ id }) => id));
  }
  expect(released).toEqual(numbers.map((number) => batchId(push._id, number)));
});

describe('collapse keys:', () => {
  test('the newest push keeps the row, in whatever order the pushes are delivered', async () => {
    const [token = ''] = newTokens(1);
    const collapse = `c-${token}`;
    const inInbox = { [token]: OUTCOMES.inbox };
    const older = await insertPush(database, [token], { collapse });
    const newer = await insertPush(database, [token], { collapse });
    const newest = await insertPush(database, [token], { collapse });
    await deliver(store, newer, inInbox);
    await deliver(store, older, inInbox);
    expect((await store.inbox.listRows(token)).map(({ push }) => push)).toEqual([newer.id]);
    await deliver(store, newest, inInbox);
    expect((await store.inbox.listRows(token)).map(({ push }) => push)).toEqual([newest.id]);
    const key = { _id: older.id, app: (await database.pushes.findOne())?.app ?? '', collapse };
    expect(await store.collapse.hasNewer(key, token)).toBe(true);
    expect(await store.collapse.hasNewer({ ...key, _id: newest.id }, token)).toBe(false);
    const found = await store.collapse.findNewerRecipients(key, token, token);
    expect([...found]).toEqual([token]);
  });

  test('rows of the older push are reported as superseded, and those of the newer one are written', async () => {
    const [first = '', second = ''] = newTokens(2);
    const collapse = `c-${first}`;
    const older = await insertPush(database, [first, second], { collapse });
    const newer = await insertPush(database, [first], { collapse });
    await deliver(store, newer, { [first]: OUTCOMES.inbox });
    const row = { push: older.id, work: older.id, collapse, sent: false };
    const superseded = await store.inbox.enqueue([
      { ...row, token: first, position: 0 },
      { ...row, token: second, position: 1 },
    ]);
    expect([...superseded]).toEqual([first]);
    const pending = await store.inbox.filterPending({ _id: older.id, collapse }, [first, second]);
    expect([...pending]).toEqual([second]);
  });
});

test('the end of a push ends its fan-out, although a worker is in the middle of a step', async () => {
  const push = await insertPush(database, newTokens(2), { shape: 'in two batches' });
  const { id } = push;
  const fan = { seq: 0, next: 0, done: false, at: new Date(0) };
  await database.pushes.updateOne({ _id: id }, { $set: { fan } });
  const held = await store.fanOuts.claim(id, LEASE_MS);
  if (held === undefined) throw new Error('the fan-out is not due');
  expect(await store.fanOuts.beginPage(held, { from: '', to: 'a', next: 0 })).toBe(true);
  await expire(database, push);
  await store.pushCompletion.completeIfDone(id, 0);
  expect(await store.fanOuts.beginPage(held, { from: 'a', to: 'b', next: 2 })).toBe(false);
  const cursor = { from: 'b', next: 4 };
  expect(await store.fanOuts.endStep(held, { done: false, delayMs: 0, cursor })).toBe(false);
  const ended = await database.pushes.findOne({ _id: id });
  expect([ended?.state, ended?.fan.done, ended?.fan.to]).toEqual(['finished', true, 'a']);
});
