import { expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import { DeletedDeviceError } from '../src/device-registration.ts';
import { createDevices } from '../src/devices.ts';
import type { DeviceDocument } from '../src/documents.ts';
import { useCrossings } from './crossings.ts';
import { APP } from './document-fixtures.ts';
import { useStatements } from './statements.ts';
import { useStore } from './use-store.ts';

const OTHER_APP = 'c'.repeat(24);

const under = useStore();
const { store } = under;
const cross = useCrossings(under);
const listed = useStatements(under);

const devices = () => under.db.collection<DeviceDocument>('devices');
const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;
const findHolders = async (address: string, app = APP) =>
  (await devices().find({ app, 'provider.address': address }).toArray()).map(({ _id }) => _id);
const register = (address?: string, app = APP, by: TestStore = store) =>
  by.devices.register(app, 'android', address === undefined ? undefined : addressOf(address));

let sequence = 0;
function newAddress(): string {
  sequence += 1;
  return `address${sequence}`;
}

/**
 * Which device asks for the address: one that has none, the one that has it, or a new one; the holder may also take
 * another one.
 */
type Asking = 'first' | 'second' | 'holder' | 'new' | 'holder for another';

test.each<[held: Asking, meanwhile: Asking[], keeper: 'one' | 'the last new one']>([
  ['first', ['first'], 'one'],
  ['first', ['second'], 'one'],
  ['first', ['second', 'first'], 'one'],
  ['first', ['second', 'holder', 'new'], 'one'],
  ['first', ['first', 'new'], 'the last new one'],
  ['first', ['holder', 'second', 'second'], 'one'],
  ['first', ['holder for another', 'first', 'holder'], 'one'],
  ['holder', ['first'], 'one'],
  ['holder', ['new', 'new'], 'one'],
  ['new', ['new'], 'one'],
  ['new', ['first', 'second'], 'one'],
])(
  'an address that %s and meanwhile %j get is kept by %s, and none that lives is reported as deleted',
  async (asking, others, keeper) => {
    await cross({
      async given() {
        const address = newAddress();
        const names = ['first', 'second', 'holder'] as const;
        const entries = names.map(async (name) => {
          return [name, (await register(name === 'holder' ? address : undefined)).token] as const;
        });
        const tokens: Partial<Record<Asking, string>> = Object.fromEntries(
          await Promise.all(entries),
        );
        let last = '';
        const replaced: string[] = [];
        const ask = async (by: TestStore, name: Asking) => {
          try {
            if (name === 'new') {
              const registered = await register(address, APP, by);
              last = registered.token;
              replaced.push(...registered.replaced);
            } else {
              const token = tokens[name] ?? tokens.holder ?? '';
              const asked = name === 'holder for another' ? `${address}, other` : address;
              replaced.push(...(await by.devices.setAddress(APP, token, addressOf(asked))));
            }
          } catch (error) {
            expect(error).toBeInstanceOf(DeletedDeviceError);
          }
        };
        return { address, ask, replaced, last: () => last };
      },
      held: (by, { ask }) => ask(by, asking),
      async meanwhile(by, { ask }) {
        for (const name of others) await ask(by, name);
      },
      async check({ address, replaced, last }) {
        expect(await findHolders(address)).toEqual([
          keeper === 'one' ? expect.any(String) : last(),
        ]);
        const deleted = { _id: { $in: replaced }, deletedAt: { $exists: true } };
        expect(await devices().countDocuments(deleted)).toBe(replaced.length);
      },
    });
  },
);

test('twenty devices that register with one address at once are all registered, and one keeps it', async () => {
  const stores = await Promise.all([under.connect(), under.connect()]);
  const address = newAddress();
  const requests = Array.from({ length: 20 }, (_, n) =>
    register(address, APP, stores[n % stores.length]),
  );
  const registered = await Promise.all(requests);
  const replaced = registered.flatMap((one) => one.replaced);
  const holders = await findHolders(address);
  expect(holders).toHaveLength(1);
  expect([...replaced, ...holders].sort()).toEqual(registered.map(({ token }) => token).sort());
});

test('a holder that gets another address meanwhile is deleted only if it still has the contested one', async () => {
  let deletions = 0;
  const crossings = await cross({
    async given() {
      const address = newAddress();
      const { token } = await register(address);
      return {
        address,
        token,
        next: Promise.withResolvers<Awaited<ReturnType<typeof register>>>(),
      };
    },
    held: async (by, { address, next }) => next.resolve(await register(address, APP, by)),
    meanwhile: (by, { address, token }) =>
      by.devices.setAddress(APP, token, addressOf(`${address}, other`)).catch((error) => {
        deletions += 1;
        expect(error).toBeInstanceOf(DeletedDeviceError);
      }),
    async check({ address, token, next }) {
      const { token: newest, replaced } = await next.promise;
      const kept = await findHolders(`${address}, other`);
      expect([...replaced, ...kept]).toEqual([token]);
      expect(await findHolders(address)).toEqual([newest]);
    },
  });
  expect(deletions).toBeGreaterThan(0);
  expect(deletions).toBeLessThan(crossings);
});

test('a deleted device gets no address, and takes none from another', async () => {
  const address = newAddress();
  const { token: holder } = await register(address);
  const { token } = await register();
  await store.deletedDevices.markDeleted(APP, token);
  const request = store.devices.setAddress(APP, token, addressOf(address));
  await expect(request).rejects.toThrow(DeletedDeviceError);
  expect(await findHolders(address)).toEqual([holder]);
});

test('a registration is one statement, and some more where another device has the address', async () => {
  const api = createDevices(listed.db, store.clock, { listSubscribed: () => [] });
  const address = newAddress();
  const first = () => api.register(APP, 'android', addressOf(address));
  expect(await listed.of(first)).toEqual(['insert devices']);
  expect(await listed.of(first)).toEqual([
    ...['insert devices', 'find devices', 'insert devices'],
    ...['update devices', 'insert devices'],
  ]);
  const [token = ''] = await findHolders(address);
  const change = () => api.setAddress(APP, token, addressOf(newAddress()));
  expect(await listed.of(change)).toEqual(['update devices']);
});

test('another app may have a device with the same address', async () => {
  const address = newAddress();
  const { token } = await register(address);
  const other = await register(address, OTHER_APP);
  expect(other.replaced).toEqual([]);
  expect(await findHolders(address)).toEqual([token]);
  expect(await findHolders(address, OTHER_APP)).toEqual([other.token]);
});

const importTwice = ({ imports }: TestStore, address: string) => {
  const imported = { platform: 'android', provider: addressOf(address) } as const;
  return imports.importDevices(APP, [imported, imported]);
};

test('an address stays with its device when it is imported', async () => {
  const address = newAddress();
  const { token } = await register(address);
  const existing = { kind: 'existing', token };
  expect(await importTwice(store, address)).toEqual([existing, existing]);
});

test('an address that two processes import is imported for one device', async () => {
  await cross({
    given: async () => ({ address: newAddress(), results: [] as object[] }),
    held: async (by, { address, results }) => results.push(...(await importTwice(by, address))),
    meanwhile: async (by, { address, results }) =>
      results.push(...(await importTwice(by, address))),
    async check({ address, results }) {
      const [token, ...others] = await findHolders(address);
      expect(others).toEqual([]);
      expect(results).toHaveLength(4);
      const imported = { kind: 'imported', token };
      const existing = { kind: 'existing', token };
      expect(results).toEqual(
        expect.arrayContaining([imported, existing].map(expect.objectContaining)),
      );
      expect(results.filter((one) => 'kind' in one && one.kind === 'imported')).toHaveLength(1);
    },
  });
});

test('a device that lives is not cleared', async () => {
  const { token } = await register();
  const topics = ['news'];
  await store.subscriptions.subscribe(APP, { token, platform: 'android' }, topics);
  expect(await store.deletedDevices.clearLeftovers(APP, token)).toEqual([]);
  expect(await store.subscriptions.listTopics(token)).toEqual(topics);
});
