import { newPushId } from '@carillon/core/ids';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { DeviceDocument, IdempotencyKeyDocument, PushDocument } from '../src/documents.ts';
import type { Store } from '../src/store.ts';
import { APP, push } from './document-fixtures.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

/** In a sharded cluster each of these would hold on one shard only. */
const DROPPED = [
  ['pushes', 'app_1_idempotency.key_1'],
  ['devices', 'app_1_provider.address_1'],
] as const;
const PROCESSES = 3;
const ROUNDS = 25;

let under: StoreUnderTest;
let stores: Store[];
beforeAll(async () => {
  under = await startStore();
  for (const [collection, index] of DROPPED) await under.db.collection(collection).dropIndex(index);
  stores = await Promise.all(Array.from({ length: PROCESSES }, () => under.connect()));
});
afterAll(() => under?.stop());

const HOUR_MS = 3_600_000;
let sequence = 0;

/** Returns a text that no other test has. */
function newName(): string {
  sequence += 1;
  return `name${sequence}`;
}

const storeOf = (n: number): Store => stores[n % PROCESSES] as Store;

describe('an idempotency key', () => {
  const keys = () => under.db.collection<IdempotencyKeyDocument>('idempotency_keys');

  function buildPush(key: string, startMs: number): PushDocument {
    const idempotency = { key, bodyHash: 'x' };
    return {
      ...push({ _id: newPushId(startMs), acceptedAt: new Date() }),
      idempotency,
    } as PushDocument;
  }

  /** Accepts a push as an API process does; returns the id of the push that has the key. */
  async function accept(store: Store, key: string, startMs = Date.now()): Promise<string> {
    const built = buildPush(key, startMs);
    const { _id, app, idempotency } = built;
    if (idempotency === undefined) throw new Error('the push has no key');
    const reserved = await store.pushes.reserveKey({ _id, app, idempotency });
    if ('existing' in reserved) return reserved.existing._id;
    const existing = await store.pushes.insert({ ...built, _id: reserved.id });
    return existing?.state === 'abandoned' ? 'lost' : (existing?._id ?? reserved.id);
  }

  async function findAccepted(key: string): Promise<string[]> {
    const found = await under.pushes.find({ 'idempotency.key': key, state: 'open' }).toArray();
    return found.map(({ _id }) => _id);
  }

  test('of twenty requests at once in three processes is that of one push', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const key = newName();
      const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => accept(storeOf(n), key)));
      expect(new Set(ids).size).toBe(1);
      expect(await findAccepted(key)).toEqual([ids[0]]);
    }
  });

  test('whose owner died between the two writes is that of a repeated request, under the same id', async () => {
    const key = newName();
    const { _id, app, idempotency } = buildPush(key, Date.now());
    await storeOf(0).pushes.reserveKey({ _id, app, idempotency: idempotency ?? never() });
    expect(await accept(storeOf(1), key)).toBe(_id);
    expect(await findAccepted(key)).toEqual([_id]);
  });

  test('whose owner is suspended between the two writes is lost to a later request', async () => {
    const key = newName();
    const late = buildPush(key, Date.now() - HOUR_MS);
    const { _id, app, idempotency } = late;
    await storeOf(0).pushes.reserveKey({ _id, app, idempotency: idempotency ?? never() });
    const ids = await Promise.all([1, 2, 3].map((n) => accept(storeOf(n), key)));
    // Only one process succeeds; the others repeat its response.
    expect(new Set(ids).size).toBe(1);
    expect(await storeOf(0).pushes.insert(late)).toMatchObject({ _id, state: 'abandoned' });
    expect(await findAccepted(key)).toEqual([ids[0]]);
    expect(await accept(storeOf(0), key)).toBe(ids[0]);
  });

  test('can be used again after a day', async () => {
    const key = newName();
    const first = await accept(storeOf(0), key);
    const yesterday = new Date(Date.now() - 25 * HOUR_MS);
    await under.pushes.updateOne({ _id: first }, { $set: { acceptedAt: yesterday } });
    const second = await accept(storeOf(1), key);
    expect(second).not.toBe(first);
    expect((await storeOf(2).pushes.findByIdempotencyKey(APP, key))?._id).toBe(second);
    expect(await keys().countDocuments({ _id: `${APP}:${key}` })).toBe(1);
  });

  test('that a process of the previous release has inserted is found without a document of its own', async () => {
    const key = newName();
    const old = buildPush(key, Date.now());
    await under.pushes.insertOne(old);
    expect((await storeOf(0).pushes.findByIdempotencyKey(APP, key))?._id).toBe(old._id);
  });
});

describe('a provider address', () => {
  const devices = () => under.db.collection<DeviceDocument>('devices');
  const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;
  const findHolders = (address: string) =>
    devices().find({ app: APP, 'provider.address': address }).toArray();

  test('belongs to one device, however many register at once in three processes', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const address = newName();
      await Promise.all(
        Array.from({ length: 6 }, (_, n) =>
          storeOf(n).devices.register(APP, 'android', addressOf(address)),
        ),
      );
      expect(await findHolders(address)).toHaveLength(1);
    }
  });

  test('belongs to one device, however many devices get it at once', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const address = newName();
      const registered = await Promise.all(
        [0, 1, 2].map((n) => storeOf(n).devices.register(APP, 'ios', addressOf(newName()))),
      );
      await Promise.all(
        registered.map(({ token }, n) =>
          storeOf(n).devices.setAddress(APP, token, addressOf(address)),
        ),
      );
      expect(await findHolders(address)).toHaveLength(1);
    }
  });

  test('of a device that was written by a process that died moves to the next device', async () => {
    const address = newName();
    const { token } = await storeOf(0).devices.register(APP, 'android', addressOf(address));
    // As the process has left it: entered and written, and not read afterwards.
    const orphan = { ...(await devices().findOne({ _id: token })), _id: newName() };
    await under.db
      .collection<{ _id: string }>('addresses')
      .updateOne(
        { 'holders.token': token },
        { $push: { holders: { token: orphan._id, at: new Date() } } },
      );
    await devices().insertOne(orphan as DeviceDocument);
    const next = await storeOf(1).devices.register(APP, 'android', addressOf(address));
    expect((await findHolders(address)).map(({ _id }) => _id)).toEqual([next.token]);
    expect(next.replaced.toSorted()).toEqual([token, orphan._id].sort());
  });

  test('stays with its device when it is imported again, in three processes at once', async () => {
    const address = newName();
    const first = await storeOf(0).devices.register(APP, 'android', addressOf(address));
    const imported = { platform: 'android', provider: addressOf(address) } as const;
    const results = await Promise.all(
      [0, 1, 2].map((n) => storeOf(n).imports.importDevices(APP, [imported])),
    );
    expect(results.flat()).toEqual([0, 1, 2].map(() => ({ kind: 'existing', token: first.token })));
    expect(await findHolders(address)).toHaveLength(1);
  });

  test('is imported for one device, in three processes at once and twice in each', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const address = newName();
      const imported = { platform: 'android', provider: addressOf(address) } as const;
      await Promise.all(
        [0, 1, 2].map((n) => storeOf(n).imports.importDevices(APP, [imported, imported])),
      );
      expect(await findHolders(address)).toHaveLength(1);
    }
  });

  test('that a device no longer has does not list it', async () => {
    const [address, other] = [newName(), newName()];
    const { token } = await storeOf(0).devices.register(APP, 'ios', addressOf(address));
    await storeOf(1).devices.setAddress(APP, token, addressOf(other));
    const entries = () =>
      under.db.collection('addresses').countDocuments({ 'holders.token': token });
    expect(await entries()).toBe(1);
    await storeOf(2).deletedDevices.markDeleted(APP, token);
    await storeOf(2).deletedDevices.clearLeftovers(APP, token);
    expect(await entries()).toBe(0);
  });
});

function never(): never {
  throw new Error('the push has no key');
}
