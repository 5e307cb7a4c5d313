import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Collection, Db } from 'mongodb';
import { type AddressHolders, createAddressHolders } from '../src/address-holders.ts';
import type { DeviceDocument } from '../src/documents.ts';
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

/** Opens the lists over a database whose statements of one kind are delayed. */
function openDelayed(
  on: 'addresses' | 'devices',
  method: 'findOneAndUpdate' | 'updateMany',
  delay: (run: () => Promise<unknown>) => Promise<unknown>,
): AddressHolders {
  const delayed = under.db.collection(on);
  const statement = (delayed[method] as Statement).bind(delayed);
  Object.assign(delayed, { [method]: (...args: unknown[]) => delay(() => statement(...args)) });
  const collection = (name: string) => (name === on ? delayed : under.db.collection(name));
  return createAddressHolders({ collection } as unknown as Db, NO_WEBHOOKS);
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
  const ofFirst = openDelayed('devices', 'updateMany', async (run) => {
    await deletion.pass();
    return run();
  });
  const ofSecond = openDelayed('addresses', 'findOneAndUpdate', async (run) => {
    const list = await run();
    await entered.pass();
    return list;
  });
  const ofThird = createAddressHolders(under.db, NO_WEBHOOKS);

  const one = ofFirst.write(first.claim, async () => {
    await written.pass();
    return first.write();
  });
  await written.reached;
  const two = ofSecond.write(second.claim, second.write);
  await entered.reached;
  // The third one is alone: the others have entered and are not written.
  expect(await ofThird.write(third.claim, third.write)).toEqual([]);
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
  await lists.write(claim, write(holder.token, 'contested'));
  const slow = openDelayed('devices', 'updateMany', async (run) => {
    await write(holder.token, 'another')();
    return run();
  });
  const nextClaim = { ...next.claim, address: 'contested' };
  expect(await slow.write(nextClaim, write(next.token, 'contested'))).toEqual([]);
  expect((await devices.findOne({ _id: holder.token }))?.deletedAt).toBeUndefined();
});
