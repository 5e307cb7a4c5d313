import { newDeviceToken, newPushId } from '@carillon/core/ids';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import type { DeviceDocument, PushDocument } from '../src/documents.ts';
import { APP, push } from './document-fixtures.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

let under: StoreUnderTest;
beforeAll(async () => {
  under = await startStore();
});
afterAll(() => under?.stop());
beforeEach(() => under.clear());

const DUPLICATE_KEY = { code: 11_000 };

describe('an idempotency key', () => {
  const idempotency = { key: 'key', bodyHash: 'x' };
  const newPush = (): PushDocument => ({
    ...push({ _id: newPushId(Date.now()), acceptedAt: new Date() }),
    idempotency,
  });
  const reserve = ({ _id, app }: PushDocument) =>
    under.store.pushes.reserveKey({ _id, app, idempotency });
  /** The statements of the previous release: it writes and reads no document of a key. */
  const before = {
    insert: (one: PushDocument) => under.pushes.insertOne(one),
    find: () => under.pushes.findOne({ app: APP, 'idempotency.key': 'key' }),
  };

  test('of the previous release creates no second push', async () => {
    const earlier = newPush();
    await before.insert(earlier);
    expect(await under.store.pushes.findByIdempotencyKey(APP, 'key')).toMatchObject(earlier);
    const late = newPush();
    expect(await reserve(late)).toEqual({ id: late._id });
    expect(await under.store.pushes.insert(late)).toMatchObject({ _id: earlier._id });
    expect(await under.pushes.countDocuments()).toBe(1);
  });

  test('of this release creates no second push in the previous release', async () => {
    const earlier = newPush();
    await reserve(earlier);
    await under.store.pushes.insert(earlier);
    await expect(before.insert(newPush())).rejects.toMatchObject(DUPLICATE_KEY);
    expect(await before.find()).toMatchObject(earlier);
  });

  test('whose owner died before its push is that of the push that the previous release then inserts', async () => {
    const [dead, repeated] = [newPush(), newPush()];
    await reserve(dead);
    await before.insert(repeated);
    const found = await under.store.pushes.findByIdempotencyKey(APP, 'key');
    expect(found?._id).toBe(repeated._id);
    // The owner was only suspended.
    expect(await under.store.pushes.insert(dead)).toMatchObject({ _id: repeated._id });
    expect(await under.pushes.countDocuments()).toBe(1);
  });
});

describe('a provider address', () => {
  const provider = { channel: 'fcm', address: 'address' } as const;
  const devices = () => under.db.collection<DeviceDocument>('devices');
  const findHolders = async () =>
    (await devices().find({ app: APP, 'provider.address': 'address' }).toArray()).map(
      ({ _id }) => _id,
    );
  const register = () => under.store.devices.register(APP, 'android', provider);

  /** The statements of the previous release: it writes and reads no list of an address. */
  async function registerBefore(): Promise<string> {
    const [_id, now] = [newDeviceToken(), new Date()];
    await devices().updateMany(
      { app: APP, 'provider.address': 'address' },
      { $currentDate: { deletedAt: true }, $set: { leaving: true }, $unset: { provider: true } },
    );
    const dates = { registeredAt: now, lastActiveAt: now };
    const device = { _id, app: APP, platform: 'android', ...dates } as const;
    await devices().insertOne({ ...device, provider: { ...provider, since: now } });
    return _id;
  }

  test('moves from one release to the other and back', async () => {
    const first = await registerBefore();
    const second = await register();
    expect(second.replaced).toEqual([first]);
    const third = await registerBefore();
    expect(await findHolders()).toEqual([third]);
    const fourth = await register();
    expect(fourth.replaced).toEqual([third]);
    expect(await findHolders()).toEqual([fourth.token]);
  });

  test('of the previous release moves to a device that gets it', async () => {
    const first = await registerBefore();
    const { token } = await under.store.devices.register(APP, 'android');
    expect(await under.store.devices.setAddress(APP, token, provider)).toEqual([first]);
    expect(await findHolders()).toEqual([token]);
  });

  test('of the previous release stays with its device when it is imported', async () => {
    const first = await registerBefore();
    const imported = { platform: 'android', provider } as const;
    const results = await under.store.imports.importDevices(APP, [imported]);
    expect(results).toEqual([{ kind: 'existing', token: first }]);
    expect(await findHolders()).toEqual([first]);
  });
});
