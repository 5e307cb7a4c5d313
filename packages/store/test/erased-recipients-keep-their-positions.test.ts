import { ERASED_TOKEN, hashToken } from '@carillon/core/batch';
import { OUTCOMES } from '@carillon/core/outcomes';
import { expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { FIRST_RECIPIENT } from '../../reports/src/recipients.ts';
import { MAX_HASHED_RECIPIENTS } from '../src/create-batches.ts';
import {
  APP,
  acknowledge,
  deliver,
  findReported,
  insertPush,
  LEASE_MS,
  newTokens,
  SHAPES,
  type TestPush,
} from './store-under-test.ts';
import { useStore } from './use-store.ts';

const database = useStore();
const { store } = database;

async function listRecipients(push: TestPush): Promise<[string, string][]> {
  const found = await findReported(store, push);
  const { recipients } = await store.recipients.readPage(found, FIRST_RECIPIENT, 1_000);
  return recipients.map(({ token, outcome }) => [token, outcome]);
}

async function findTokenAnywhere(token: string): Promise<string[]> {
  const found: string[] = [];
  for (const name of ['pushes', 'batches', 'inbox', 'full'])
    for (const document of await database.db.collection(name).find().toArray())
      if (JSON.stringify(document).includes(token)) found.push(`${name} ${document._id}`);
  return found;
}

test.each(SHAPES)('of a push with its recipients %s', async (shape) => {
  // The last token begins like the first: only whole tokens are replaced.
  const [base = '', second = '', third = ''] = newTokens(3);
  for (const [erased, ...others] of [
    [base, second, third],
    [second, base, third],
    [third, base, second],
  ] as [string, ...string[]][]) {
    const tokens = [erased, ...others, `${erased}x`];
    const push = await insertPush(database, tokens, { shape });
    const audience = { topics: ['news'], tokens: `${erased}x ${erased}` };
    await database.pushes.updateOne({ _id: push.id }, { $set: { audience } });
    const pending = others[0] ?? '';
    await deliver(store, push, { [pending]: OUTCOMES.inbox });
    const before = await listRecipients(push);
    await store.erasure.eraseFromPushes(APP, erased, '');
    expect(await findTokenAnywhere(`${erased} `)).toEqual([]);
    expect(await findTokenAnywhere(`"${erased}"`)).toEqual([]);
    expect(await listRecipients(push)).toEqual(
      before.map(([token, outcome]) => [token === erased ? ERASED_TOKEN : token, outcome]),
    );
    // The others are found by index and acknowledge at their position.
    await acknowledge(database, push, pending);
    const head = await findReported(store, push);
    for (const token of [...others, `${erased}x`])
      expect(await store.recipients.findOne(head, token)).toMatchObject({
        outcome: 'delivered',
      });
    expect(await store.recipients.findOne(head, erased)).toBeUndefined();
    // Not even the hash is left, by which the others' pushes are found.
    const ofErased = { tokenHashes: hashToken(erased) };
    expect(await database.pushes.countDocuments(ofErased)).toBe(0);
    expect(await database.batches.countDocuments(ofErased)).toBe(0);
    const page = { app: APP, token: pending, before: 'g', limit: 1 };
    const { pushes } = await store.pushesOfDevice.list(page);
    expect(pushes.map((one) => one.push._id)).toEqual([push.id]);
  }
});

test.each(SHAPES)('of a push with many recipients %s', async (shape) => {
  const tokens = newTokens(2 * MAX_HASHED_RECIPIENTS + 2).sort();
  const push = await insertPush(database, tokens, { shape });
  const { batchIds } = push;
  const perBatch = tokens.length / batchIds.length;
  // The first and the last of each batch, which stand in its range.
  const erased = tokens.filter((_, n) => [0, perBatch - 1].includes(n % perBatch));
  for (const token of erased) {
    await store.erasure.eraseFromPushes(APP, token, '');
    expect(await findTokenAnywhere(token)).toEqual([]);
  }
  const others = [1, perBatch - 2, tokens.length - 2].map((n) => tokens[n] ?? '');
  for (const token of [...others, ...erased]) {
    const page = { app: APP, token, before: 'g', limit: 1 };
    const { pushes } = await store.pushesOfDevice.list(page);
    expect(pushes.map((one) => one.push._id)).toEqual(erased.includes(token) ? [] : [push.id]);
  }
});

test('all pushes of the app are searched, and those of no other app', async () => {
  const [token = ''] = newTokens(1);
  const own = await insertPush(database, [token]);
  const foreign = await insertPush(database, [token]);
  await database.pushes.updateOne({ _id: foreign.id }, { $set: { app: 'other' } });
  const { rewritten } = await store.erasure.eraseFromPushes(APP, token, '');
  expect(rewritten).toBe(1);
  expect(await listRecipients(own)).toEqual([[ERASED_TOKEN, 'pending']]);
  expect(await findTokenAnywhere(token)).toEqual([`pushes ${foreign.id}`]);
});

test('the record of a deletion is removed ten minutes after it', async () => {
  const { token } = await store.devices.register(APP, 'electron');
  const other = await store.devices.register(APP, 'electron');
  expect(await store.deletedDevices.markDeleted(APP, token)).toBe(true);
  await store.deletedDevices.clearLeftovers(APP, token);
  const now = store.clock.now();
  const kept = await store.erasure.removeRecord(token, now);
  if (kept?.kind !== 'recent') throw new Error('it is gone');
  expect(kept.until.getTime()).toBeGreaterThan(now + 590_000);
  expect(await store.erasure.removeRecord(token, now + 601_000)).toBeUndefined();
  expect(await store.devices.find(token)).toBeUndefined();
  expect(await store.erasure.removeRecord(other.token, now + 601_000)).toBeUndefined();
  expect(await store.devices.find(other.token)).toBeDefined();
});

test('the record of a deletion stays until it is reported to the webhooks that are on', async () => {
  const app = 'c'.repeat(24);
  const box = { key: 1, nonce: '', text: '', tag: '', from: '' };
  const ids = ['on', 'off', 'removed'] as const;
  for (const _id of ids)
    await store.webhooks.create({
      ...{ _id, app, address: box, host: 'example.org', secret: box, events: ['device.deleted'] },
    });
  await store.knownWebhooks.refresh();
  const { token } = await store.devices.register(app, 'electron');
  await store.deletedDevices.markDeleted(app, token);
  await store.deletedDevices.clearLeftovers(app, token);
  await store.webhooks.turnOffOf(app, 'off');
  await store.webhooks.remove(app, 'removed');
  const later = store.clock.now() + 601_000;
  expect(await store.erasure.removeRecord(token, later)).toEqual({ kind: 'unreported' });
  const due = { w: 'on', events: ['deleted'] };
  expect((await store.devices.find(token))?.notify).toContainEqual(expect.objectContaining(due));
  await until(async () => {
    const reports = await store.outbox.claim('on', LEASE_MS);
    const reported = reports.map((report) => {
      return { report, events: report.entry.events ?? [], isComplete: true };
    });
    await store.outbox.record(reported, LEASE_MS);
    return reported.length > 0;
  });
  expect(await store.erasure.removeRecord(token, later)).toBeUndefined();
  expect(await store.devices.find(token)).toBeUndefined();
});
