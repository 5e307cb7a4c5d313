import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Collection, Db } from 'mongodb';
import { createDevices, DeletedDeviceError } from '../src/devices.ts';
import type { DeviceDocument } from '../src/documents.ts';
import { APP } from './document-fixtures.ts';
import { type ListedStatements, listStatements } from './statements.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

const OTHER_APP = 'c'.repeat(24);
const NO_WEBHOOKS = { listSubscribed: () => [] };
const ROUNDS = 25;

let under: StoreUnderTest;
let devices: Collection<DeviceDocument>;
let listed: ListedStatements;
beforeAll(async () => {
  under = await startStore();
  devices = under.db.collection<DeviceDocument>('devices');
  listed = await listStatements(under.uri);
});
afterAll(async () => {
  await listed?.close();
  await under?.stop();
});

type Statement = (...args: unknown[]) => Promise<unknown>;
type Method = 'findOne' | 'insertOne' | 'updateOne';
/** Runs a statement earlier or later; `args` are those of the driver's method. */
type Delay = (method: Method, run: () => Promise<unknown>, args: unknown[]) => Promise<unknown>;

const openDevices = (db: Db) => createDevices(db, under.store.clock, NO_WEBHOOKS);

/** Opens the devices as a process whose statements are delayed. */
function openDelayed(delay: Delay): ReturnType<typeof createDevices> {
  const delayed = under.db.collection('devices');
  const statements = (['findOne', 'insertOne', 'updateOne'] as const).map((method) => {
    const statement = (delayed[method] as Statement).bind(delayed);
    const run = (...args: unknown[]) => delay(method, () => statement(...args), args);
    return [method, run] as const;
  });
  const collection = Object.assign(delayed, Object.fromEntries(statements));
  return openDevices({ collection: () => collection } as unknown as Db);
}

const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;
const findHolders = async (address: string, app = APP) =>
  (await devices.find({ app, 'provider.address': address }).toArray()).map(({ _id }) => _id);
const register = async (address?: string, app = APP) =>
  under.store.devices.register(
    app,
    'android',
    address === undefined ? address : addressOf(address),
  );

test.each<[what: string, requests: readonly string[]]>([
  ['two devices twice each', ['first', 'second', 'first', 'second']],
  ['a device twice and a new one', ['first', 'new', 'first']],
  ['three devices and two new ones', ['first', 'second', 'second', 'third', 'new', 'new']],
])(
  'one keeps an address that %s get at once, and none that lives is reported as deleted',
  async (_what, requests) => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const address = `${requests.length} at once, ${round}`;
      const names = [...new Set(requests)];
      const tokens = new Map(
        await Promise.all(names.map(async (name) => [name, (await register()).token] as const)),
      );
      const ends = await Promise.allSettled(
        requests.map(async (name) => {
          const api = openDelayed(async (_method, run) => {
            await sleep(Math.random() * 5);
            return run();
          });
          return name === 'new'
            ? (await api.register(APP, 'android', addressOf(address))).replaced
            : api.setAddress(APP, tokens.get(name) ?? '', addressOf(address));
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

test('twenty devices that register with one address at once are all registered, and one keeps it', async () => {
  const stores = await Promise.all([under.connect(), under.connect()]);
  for (let round = 0; round < 5; round += 1) {
    const address = `twenty, ${round}`;
    const requests = Array.from({ length: 20 }, (_, n) =>
      stores[n % stores.length]?.devices.register(APP, 'android', addressOf(address)),
    );
    const registered = (await Promise.all(requests)).flatMap((one) => one ?? []);
    const replaced = registered.flatMap((one) => one.replaced);
    const [kept = ''] = await findHolders(address);
    expect(await findHolders(address)).toHaveLength(1);
    const tokens = registered.map(({ token }) => token);
    expect([...replaced, kept].sort()).toEqual(tokens.sort());
  }
});

/** Waits for a moment of the test before statements of some kind; `reached` says that the first one waits. */
function createGate(isAt: (method: Method, args: unknown[]) => boolean) {
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let count = 0;
  const delay =
    (at: number): Delay =>
    async (method, run, args) => {
      if (isAt(method, args)) {
        count += 1;
        if (count === at) {
          reached.resolve();
          await opened.promise;
        }
      }
      return run();
    };
  return { delay, reached: reached.promise, open: opened.resolve };
}

const isDeletion = (method: Method, [filter]: unknown[]) =>
  method === 'updateOne' && Object.hasOwn(filter as object, 'provider.since');
const isWrite = (method: Method, [filter]: unknown[]) =>
  method === 'updateOne' && Object.hasOwn(filter as object, 'deletedAt');

test.each<[where: string, isAt: (method: Method, args: unknown[]) => boolean, at: number]>([
  ['when it has found the first holder', isWrite, 2],
  ['before it deletes the first holder', isDeletion, 1],
])(
  'a request that is late, %s, takes the address from no one once its device was deleted for it',
  async (where, isAt, at) => {
    const address = `late ${where}`;
    await register(address);
    const { token } = await register();
    const gate = createGate(isAt);
    const late = openDelayed(gate.delay(at)).setAddress(APP, token, addressOf(address));
    await gate.reached;
    await under.store.devices.setAddress(APP, token, addressOf(address));
    const last = await register(address);
    expect(last.replaced).toEqual([token]);
    gate.open();
    await expect(late).rejects.toThrow(DeletedDeviceError);
    expect(await findHolders(address)).toEqual([last.token]);
  },
);

test('a holder that has got another address meanwhile is not deleted', async () => {
  const holder = await register('contested');
  const gate = createGate(isDeletion);
  const next = openDelayed(gate.delay(1)).register(APP, 'android', addressOf('contested'));
  await gate.reached;
  await under.store.devices.setAddress(APP, holder.token, addressOf('another'));
  gate.open();
  expect((await next).replaced).toEqual([]);
  expect(await findHolders('contested')).toEqual([(await next).token]);
  expect(await findHolders('another')).toEqual([holder.token]);
});

test('a deleted device gets no address, and takes none from another', async () => {
  const { token: holder } = await register('kept');
  const { token } = await register();
  await under.store.deletedDevices.markDeleted(APP, token);
  const request = under.store.devices.setAddress(APP, token, addressOf('kept'));
  await expect(request).rejects.toThrow(DeletedDeviceError);
  expect(await findHolders('kept')).toEqual([holder]);
});

test('a registration is one statement, and some more where another device has the address', async () => {
  const api = openDevices(listed.db);
  const first = () => api.register(APP, 'android', addressOf('counted'));
  expect(await listed.of(first)).toEqual(['insert devices']);
  expect(await listed.of(first)).toEqual([
    ...['insert devices', 'find devices', 'insert devices'],
    ...['update devices', 'insert devices'],
  ]);
  const [token = ''] = await findHolders('counted');
  const change = () => api.setAddress(APP, token, addressOf('counted, changed'));
  expect(await listed.of(change)).toEqual(['update devices']);
});

test('another app may have a device with the same address', async () => {
  const { token } = await register('of two apps');
  const other = await register('of two apps', OTHER_APP);
  expect(other.replaced).toEqual([]);
  expect(await findHolders('of two apps')).toEqual([token]);
  expect(await findHolders('of two apps', OTHER_APP)).toEqual([other.token]);
});

test('an address stays with its device when it is imported, and is imported for one device', async () => {
  const stores = await Promise.all([under.connect(), under.connect(), under.connect()]);
  const { token } = await register('imported');
  const importTwice = async (address: string) => {
    const imported = { platform: 'android', provider: addressOf(address) } as const;
    const calls = stores.map(({ imports }) => imports.importDevices(APP, [imported, imported]));
    return (await Promise.all(calls)).flat();
  };
  const existing = { kind: 'existing', token };
  expect(await importTwice('imported')).toEqual(Array.from({ length: 6 }, () => existing));
  for (let round = 0; round < ROUNDS; round += 1) {
    const results = await importTwice(`imported ${round}`);
    const [holder = ''] = await findHolders(`imported ${round}`);
    expect(await findHolders(`imported ${round}`)).toHaveLength(1);
    expect(results.filter(({ kind }) => kind === 'imported')).toEqual([
      { kind: 'imported', token: holder },
    ]);
  }
});

test('a device that lives is not cleared', async () => {
  const { token } = await register();
  const topics = ['news'];
  await under.store.subscriptions.subscribe(APP, { token, platform: 'android' }, topics);
  expect(await under.store.deletedDevices.clearLeftovers(APP, token)).toEqual([]);
  expect(await under.store.subscriptions.listTopics(token)).toEqual(topics);
});
