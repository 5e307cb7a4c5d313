import { setTimeout as sleep } from 'node:timers/promises';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Collection, Db } from 'mongodb';
import { type AddressHolders, createAddressHolders } from '../src/address-holders.ts';
import { createDevices, DeletedDeviceError } from '../src/devices.ts';
import type { DeviceDocument } from '../src/documents.ts';
import { createImports } from '../src/imports.ts';
import { APP } from './document-fixtures.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

const ADDRESS = 'shared';
const NO_WEBHOOKS = { listSubscribed: () => [] };

let under: StoreUnderTest;
let devices: Collection<DeviceDocument>;
beforeAll(async () => {
  under = await startStore();
  devices = under.db.collection<DeviceDocument>('devices');
  // Without it, as in a sharded cluster, only the lists decide.
  await devices.dropIndex('app_1_provider.address_1');
});
afterAll(() => under?.stop());

type Statement = (...args: unknown[]) => Promise<unknown>;

/** A point that a process reaches, and does not pass before the test lets it. */
function createGate() {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  return {
    reached: reached.promise,
    open: opened.resolve,
    pass(): Promise<void> {
      reached.resolve();
      return opened.promise;
    },
  };
}

const METHODS = [
  ...['findOneAndUpdate', 'findOne', 'insertOne', 'bulkWrite'],
  ...['updateOne', 'updateMany', 'deleteOne', 'deleteMany'],
] as const;
type Delay = (statement: `${string}.${string}`, run: () => Promise<unknown>) => Promise<unknown>;

/** Opens the database so that its statements can be delayed. */
function openDelayed(delay: Delay): Db {
  const collection = (name: string) => {
    const delayed = under.db.collection(name);
    const statements = METHODS.map((method) => {
      const statement = (delayed[method as keyof typeof delayed] as Statement).bind(delayed);
      const run = (...args: unknown[]) => delay(`${name}.${method}`, () => statement(...args));
      return [method, run] as const;
    });
    return Object.assign(delayed, Object.fromEntries(statements));
  };
  return { collection } as unknown as Db;
}

/** Delays one kind of statement. */
function openDelayedAt(
  at: string,
  delay: (run: () => Promise<unknown>) => Promise<unknown>,
): AddressHolders {
  const db = openDelayed((statement, run) => (statement === at ? delay(run) : run()));
  return createAddressHolders(db, NO_WEBHOOKS);
}

/** Inserts a device, and returns its claim on the address and the write that gives it the address. */
async function createRival(sinceMs: number) {
  const token = newDeviceToken();
  const now = new Date();
  await devices.insertOne({
    ...{ _id: token, app: APP, platform: 'android', registeredAt: now, lastActiveAt: now },
  });
  const provider = { channel: 'fcm', address: ADDRESS, since: new Date(sinceMs) } as const;
  return {
    token,
    claim: { app: APP, token, address: ADDRESS },
    write: () => devices.updateOne({ _id: token }, { $set: { provider } }),
  };
}

test('a device keeps an address that three get at once, whatever the clocks of their processes', async () => {
  // By their clocks the first device is the last.
  const [first, second, third] = [
    await createRival(30_000),
    await createRival(10_000),
    await createRival(20_000),
  ];
  const [written, entered, deletion] = [createGate(), createGate(), createGate()];
  const ofFirst = openDelayedAt('devices.updateMany', async (run) => {
    await deletion.pass();
    return run();
  });
  const ofSecond = openDelayedAt('addresses.findOneAndUpdate', async (run) => {
    const list = await run();
    await entered.pass();
    return list;
  });
  const ofThird = createAddressHolders(under.db, NO_WEBHOOKS);

  const one = ofFirst.insert(first.claim, async () => {
    await written.pass();
    return first.write();
  });
  await written.reached;
  const two = ofSecond.insert(second.claim, second.write);
  await entered.reached;
  // The third one is alone: the others have entered and are not written.
  expect(await ofThird.insert(third.claim, third.write)).toEqual([]);
  written.open();
  // The first one has read that both have the address, and is about to delete one.
  await deletion.reached;
  entered.open();
  await two;
  deletion.open();
  await one;
  const holders = await devices.find({ app: APP, 'provider.address': ADDRESS }).toArray();
  expect(holders.map(({ _id }) => _id)).toEqual([third.token]);
});

test('a device that has got another address meanwhile is not reported as deleted', async () => {
  const [holder, next] = [await createRival(1_000), await createRival(2_000)];
  const claim = { ...holder.claim, address: 'contested' };
  const write = (token: string, address: string) => () =>
    devices.updateOne(
      { _id: token },
      { $set: { provider: { channel: 'fcm', address, since: new Date() } } },
    );
  const lists = createAddressHolders(under.db, NO_WEBHOOKS);
  await lists.insert(claim, write(holder.token, 'contested'));
  const slow = openDelayedAt('devices.updateMany', async (run) => {
    await write(holder.token, 'another')();
    return run();
  });
  const nextClaim = { ...next.claim, address: 'contested' };
  expect(await slow.insert(nextClaim, write(next.token, 'contested'))).toEqual([]);
  expect((await devices.findOne({ _id: holder.token }))?.deletedAt).toBeUndefined();
});

const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;
const openDevices = (db: Db) =>
  createDevices(db, under.store.clock, NO_WEBHOOKS, createAddressHolders(db, NO_WEBHOOKS));
const findHolders = async (address: string) =>
  (await devices.find({ app: APP, 'provider.address': address }).toArray()).map(({ _id }) => _id);

test.each<[what: string, requests: readonly ('first' | 'second' | 'new')[]]>([
  ['two devices twice each', ['first', 'second', 'first', 'second']],
  ['a device twice and a new one', ['first', 'new', 'first']],
])(
  'one keeps an address that %s get at once, and none that lives is reported as deleted',
  async (_what, requests) => {
    for (let round = 0; round < 25; round += 1) {
      const address = `${requests.length} at once, ${round}`;
      const tokens = { first: (await createRival(0)).token, second: (await createRival(0)).token };
      const ends = await Promise.allSettled(
        requests.map(async (who) => {
          const api = openDevices(
            openDelayed(async (_statement, run) => {
              await sleep(Math.random() * 5);
              return run();
            }),
          );
          return who === 'new'
            ? (await api.register(APP, 'android', addressOf(address))).replaced
            : api.setAddress(APP, tokens[who], addressOf(address));
        }),
      );
      expect(await findHolders(address)).toHaveLength(1);
      const replaced = ends.flatMap((end) => (end.status === 'fulfilled' ? end.value : []));
      const alive = { _id: { $in: replaced }, deletedAt: { $exists: false } };
      expect(await devices.countDocuments(alive)).toBe(0);
      for (const end of ends)
        if (end.status === 'rejected') expect(end.reason).toBeInstanceOf(DeletedDeviceError);
    }
  },
);

test('a deleted device gets no address, and takes none from another', async () => {
  const api = openDevices(under.db);
  const { token: holder } = await api.register(APP, 'android', addressOf('kept'));
  const { token } = await createRival(0);
  await devices.updateOne({ _id: token }, { $set: { deletedAt: new Date() } });
  await expect(api.setAddress(APP, token, addressOf('kept'))).rejects.toThrow(DeletedDeviceError);
  expect(await findHolders('kept')).toEqual([holder]);
});

test('a device that gets an address again while it leaves it is still listed', async () => {
  const api = openDevices(under.db);
  const { token } = await api.register(APP, 'android', addressOf('again'));
  let isAgain = false;
  const leaving = openDelayed(async (statement, run) => {
    if (statement === 'addresses.deleteOne' && !isAgain) {
      isAgain = true;
      await api.setAddress(APP, token, addressOf('again'));
    }
    return run();
  });
  expect(await openDevices(leaving).setAddress(APP, token, undefined)).toEqual([]);
  expect(isAgain).toBe(true);
  const next = await api.register(APP, 'android', addressOf('again'));
  expect(next.replaced).toEqual([token]);
  expect(await findHolders('again')).toEqual([next.token]);
});

test('an imported device that loses its address, and has got another one, stays', async () => {
  const api = openDevices(under.db);
  const token = newDeviceToken();
  let winner = '';
  const db = openDelayed(async (statement, run) => {
    if (statement === 'devices.insertOne')
      winner = (await api.register(APP, 'android', addressOf('imported'))).token;
    if (statement === 'devices.deleteMany') await api.setAddress(APP, token, addressOf('moved'));
    return run();
  });
  const imports = createImports(db, under.store.clock, createAddressHolders(db, NO_WEBHOOKS));
  const imported = { token, platform: 'android', provider: addressOf('imported') } as const;
  expect(await imports.importDevices(APP, [imported])).toEqual([{ kind: 'imported', token }]);
  expect(await findHolders('imported')).toEqual([winner]);
  expect(await findHolders('moved')).toEqual([token]);
});

test('nothing is left of an imported device that loses its address and is deleted by its rival', async () => {
  const api = openDevices(under.db);
  const token = newDeviceToken();
  const db = openDelayed(async (statement, run) => {
    if (statement === 'devices.insertOne') await api.register(APP, 'android', addressOf('lost'));
    if (statement === 'devices.deleteMany') await api.register(APP, 'android', addressOf('lost'));
    return run();
  });
  const imports = createImports(db, under.store.clock, createAddressHolders(db, NO_WEBHOOKS));
  const imported = { token, platform: 'android', provider: addressOf('lost') } as const;
  expect(await imports.importDevices(APP, [imported])).toEqual([{ kind: 'address-taken' }]);
  expect(await devices.countDocuments({ _id: token })).toBe(0);
});

test('a device that lives is not cleared', async () => {
  const { token } = await createRival(0);
  const topics = ['news'];
  await under.store.subscriptions.subscribe(APP, { token, platform: 'android' }, topics);
  expect(await under.store.deletedDevices.clearLeftovers(APP, token)).toEqual([]);
  expect(await under.store.subscriptions.listTopics(token)).toEqual(topics);
});
