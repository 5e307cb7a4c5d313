import { OUTCOMES } from '@carillon/core/outcomes';
import { describe, expect, test } from '@jest/globals';
import type { ClaimedBatch } from '../src/batch-table.ts';
import type { Batch } from '../src/documents.ts';
import { isSuspected, SUSPECTED_AFTER } from '../src/lapsed-claims.ts';
import { insertPush, LEASE_MS, newTokens, SHAPES, type Shape } from './store-under-test.ts';
import { useStore } from './use-store.ts';

const PROGRESS = {
  outcomes: Uint8Array.of(OUTCOMES.sent),
  latenciesMs: new Uint32Array(1),
  deferred: [],
};
const TRYING = { position: 0, attempts: 2 };

const database = useStore();
const { store } = database;

describe.each(SHAPES)('claims of a batch %s:', (shape: Shape) => {
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

  async function readBatch(id: string): Promise<Batch | undefined> {
    const inBatches = await database.batches.findOne({ _id: id });
    return (inBatches ?? (await database.pushes.findOne({ _id: id })))?.work;
  }

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
    expect(await readBatch(id)).toMatchObject({ lapsed: SUSPECTED_AFTER + 1, trying: TRYING });
    await store.batchTable.releaseClaim(await claim(id, LEASE_MS), { delayMs: 0 });
    expect(await readBatch(id)).toMatchObject({ lapsed: SUSPECTED_AFTER + 1, trying: TRYING });
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
});
