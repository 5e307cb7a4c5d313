import { fallbackBatchId, newPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import { expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import { createEmbeddedBatch } from '../src/create-batches.ts';
import { DeletedDeviceError } from '../src/device-registration.ts';
import { createDevices, hasCredentials } from '../src/devices.ts';
import type {
  Batch,
  BatchDocument,
  DeviceDocument,
  InboxDocument,
  PushDocument,
} from '../src/documents.ts';
import { createFallbackBatch } from '../src/fallback-batch.ts';
import { buildReplacement } from '../src/former-devices.ts';
import { useCrossings } from './crossings.ts';
import { APP, push as buildPush } from './document-fixtures.ts';
import { useStatements } from './statements.ts';
import { useStore } from './use-store.ts';

const OTHER_APP = 'c'.repeat(24);

const under = useStore();
const { store } = under;
const cross = useCrossings(under);
const listed = useStatements(under);

const devices = () => under.db.collection<DeviceDocument>('devices');
const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;
const findHolders = async (address: string, app = APP) => {
  const held = { app, 'provider.address': address, 'provider.formerOf': { $exists: false } };
  return (await devices().find(held).toArray()).map(({ _id }) => _id);
};
const register = (address?: string, app = APP, by: TestStore = store, usesFcm = false) =>
  by.devices.register(app, 'android', address === undefined ? undefined : addressOf(address), {
    usesFcm,
  });

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

/** What a device becomes whose address another one has registered, in an app that uses FCM and in one that does not. */
const ENDS = {
  former: {
    deletedAt: { $exists: false },
    $expr: { $eq: ['$provider.formerOf', '$_id'] },
    replacedBy: { $exists: true },
  },
  deleted: { deletedAt: { $exists: true }, replacedBy: { $exists: false } },
};
type End = keyof typeof ENDS;

const RIVALS: [held: Asking, meanwhile: Asking[], keeper: 'one' | 'the last new one'][] = [
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
];
const CASES = RIVALS.flatMap((rivals) =>
  (['former', 'deleted'] as const).map((end): [...(typeof RIVALS)[number], End] => [
    ...rivals,
    end,
  ]),
);

test.each(CASES)(
  'an address that %s and meanwhile %j get is kept by %s, and the others, and none that lives, are %s',
  async (asking, others, keeper, end) => {
    const usesFcm = end === 'former';
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
              const registered = await register(address, APP, by, usesFcm);
              last = registered.token;
              replaced.push(...registered.replaced);
            } else {
              const token = tokens[name] ?? tokens.holder ?? '';
              const asked = name === 'holder for another' ? `${address}, other` : address;
              const wanted = addressOf(asked);
              replaced.push(...(await by.devices.setAddress(APP, token, wanted, { usesFcm })));
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
        const ended = { _id: { $in: replaced }, ...ENDS[end] };
        expect(await devices().countDocuments(ended)).toBe(replaced.length);
      },
    });
  },
);

test.each([true, false])(
  'twenty devices that register with one address at once, with FCM %j, are all registered, and one keeps it',
  async (usesFcm) => {
    const stores = await Promise.all([under.connect(), under.connect()]);
    const address = newAddress();
    const requests = Array.from({ length: 20 }, (_, n) =>
      register(address, APP, stores[n % stores.length], usesFcm),
    );
    const registered = await Promise.all(requests);
    const replaced = registered.flatMap((one) => one.replaced);
    const holders = await findHolders(address);
    expect(holders).toHaveLength(1);
    expect([...replaced, ...holders].sort()).toEqual(registered.map(({ token }) => token).sort());
  },
);

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
  const nothing = { pushes: [], fallbacks: [] };
  expect(await store.deletedDevices.clearLeftovers(APP, token)).toEqual(nothing);
  expect(await store.subscriptions.listTopics(token)).toEqual(topics);
});

/** A device with a topic whose address another one, which is not written, has taken: the process that did so has died. */
async function replaceWithoutSuccessor(address: string): Promise<string> {
  const { token } = await register(address);
  await store.subscriptions.subscribe(APP, { token, platform: 'android' }, ['news']);
  await devices().updateOne({ _id: token }, buildReplacement('never-written'));
  return token;
}

const topicsOf = (...tokens: string[]) =>
  Promise.all(tokens.map((token) => store.subscriptions.listTopics(token)));

test('a former device whose successor was never written is itself again', async () => {
  const address = newAddress();
  const token = await replaceWithoutSuccessor(address);
  expect(hasCredentials(await store.devices.findForConnect(token))).toBe(false);
  await store.deletedDevices.clearLeftovers(APP, token);
  expect(hasCredentials(await store.devices.findForConnect(token))).toBe(true);
  expect(await findHolders(address)).toEqual([token]);
  expect(await topicsOf(token)).toEqual([['news']]);
});

test('unless another device has registered the address since: that one gets the topics', async () => {
  const address = newAddress();
  const token = await replaceWithoutSuccessor(address);
  const { token: next, replaced } = await register(address, APP, store, true);
  expect(replaced).toEqual([]);
  await store.deletedDevices.clearLeftovers(APP, token);
  expect(await store.devices.find(token)).toMatchObject({ replacedBy: next });
  expect(await topicsOf(token, next)).toEqual([[], ['news']]);
});

test('a former device is not cleared into one that was replaced before: its topics follow', async () => {
  const address = newAddress();
  const { token: first } = await register(address);
  await store.subscriptions.subscribe(APP, { token: first, platform: 'android' }, ['news']);
  const { token: second } = await register(address, APP, store, true);
  const { token: third } = await register(address, APP, store, true);
  // The second is cleared before the first.
  for (const token of [second, first]) await store.deletedDevices.clearLeftovers(APP, token);
  const isUncleared = (token: string) => devices().countDocuments({ _id: token, leaving: true });
  // As the scheduler does with all that are not cleared.
  expect(await Promise.all([first, second].map(isUncleared))).toEqual([0, 0]);
  expect(await topicsOf(first, second, third)).toEqual([[], [], ['news']]);
  await store.deletedDevices.clearLeftovers(APP, second);
  expect(await topicsOf(first, second, third)).toEqual([[], [], ['news']]);
  expect(await isUncleared(second)).toBe(0);
});

test('a device that takes over a former one keeps to the limit of topics', async () => {
  const address = newAddress();
  const { token } = await register(address);
  const { token: other } = await register();
  const topics = Array.from({ length: LIMITS.topicsPerDevice }, (_, n) => `topic${n}`);
  await store.subscriptions.subscribe(APP, { token, platform: 'android' }, topics);
  await store.subscriptions.subscribe(APP, { token: other, platform: 'android' }, ['own']);
  await store.devices.setAddress(APP, other, addressOf(address), { usesFcm: true });
  await store.deletedDevices.clearLeftovers(APP, token);
  const [left, taken = []] = await topicsOf(token, other);
  // The one that has no room stays where it is.
  expect([left?.length, taken.length]).toEqual([1, LIMITS.topicsPerDevice]);
});

test.each(['cleared before', 'not cleared before'])(
  'with a device its former devices, %s, are deleted, which have its address',
  async (when) => {
    const address = newAddress();
    const { token: first } = await register(address);
    const { token: second } = await register(address, APP, store, true);
    const { token: third } = await register(address, APP, store, true);
    const tokens = [first, second, third];
    const clear = (token: string) => store.deletedDevices.clearLeftovers(APP, token);
    if (when === 'cleared before') for (const token of tokens) await clear(token);
    await store.deletedDevices.markDeleted(APP, third);
    // As the scheduler does with all that are not cleared, until there are none.
    for (const token of when === 'cleared before' ? tokens.toReversed() : tokens) {
      const uncleared = await devices().countDocuments({ _id: token, leaving: true });
      if (uncleared > 0) await clear(token);
    }
    for (const token of tokens.toReversed())
      if ((await devices().countDocuments({ _id: token, leaving: true })) > 0) await clear(token);
    for (const device of await devices()
      .find({ _id: { $in: tokens } })
      .toArray()) {
      expect(device.deletedAt).toBeDefined();
      expect(JSON.stringify(device)).not.toContain(address);
      for (const field of ['leaving', 'replacedBy', 'replaces'])
        expect(device).not.toHaveProperty(field);
    }
  },
);

const HOUR_MS = 3_600_000;
/** What a fallback to three devices has of the second one, and whether that is offered to FCM before. */
const FALLBACKS: readonly [string, (nowMs: number) => Partial<Batch>, offered: boolean][] = [
  ['all wait', (nowMs) => ({ tries: 0, at: new Date(nowMs + HOUR_MS) }), true],
  ['it waits, others do not', (nowMs) => ({ later: [[1, nowMs + HOUR_MS, 0]] }), true],
  ['another one waits', (nowMs) => ({ later: [[2, nowMs + HOUR_MS, 0]] }), false],
  ['FCM is to be tried again', (nowMs) => ({ later: [[1, nowMs + HOUR_MS, 1]] }), false],
  ['it is due', (nowMs) => ({ later: [[1, nowMs - 1, 0]] }), false],
];

test.each(FALLBACKS)(
  'of a fallback in which %s, a former device is offered at once if it waits for nothing else',
  async (_name, fieldsOf, isOffered) => {
    const address = newAddress();
    const { token } = await register(address);
    await register(address, APP, store, true);
    const tokens = [`${token.slice(0, -1)}!`, token, `${token}~`];
    const nowMs = Date.now();
    const push = newPushId(nowMs);
    const work = createEmbeddedBatch('mqtt', tokens, 'closed', new Date(nowMs)).work;
    await under.pushes.insertOne(buildPush({ _id: push, work }));
    await under.db
      .collection<InboxDocument>('inbox')
      .insertOne({ _id: `${token}:${push}`, push, work: push, position: 1 });
    const recipients = tokens.map((one) => ({ token: one }));
    const times = { dueAtMs: nowMs, nowMs };
    const fallback = createFallbackBatch({ id: push, push, app: APP, recipients, ...times });
    Object.assign(fallback.work, { tries: 1 }, fieldsOf(nowMs));
    await under.db.collection<BatchDocument>('batches').insertOne(fallback);
    const { fallbacks } = await store.deletedDevices.clearLeftovers(APP, token);
    expect(fallbacks).toEqual(isOffered ? [fallbackBatchId(push, 1)] : []);
  },
);

test('a former device is deleted when no push can be stored that was sent to it before', async () => {
  const address = newAddress();
  const { token: first } = await register(address);
  const { token: second } = await register(address, APP, store, true);
  const now = store.clock.now();
  const isDeleted = async () => (await store.devices.find(first))?.deletedAt !== undefined;
  await store.deletedDevices.deleteOldFormers(now + LIMITS.timeToLiveMax * 1_000, 1_000);
  expect(await isDeleted()).toBe(false);
  const later = now + (LIMITS.timeToLiveMax + 3 * 86_400) * 1_000;
  expect(await store.deletedDevices.deleteOldFormers(later, 1_000)).toBeGreaterThan(0);
  expect(await isDeleted()).toBe(true);
  expect(await findHolders(address)).toEqual([second]);
});

test('the own id of an installation finds its newest device, former or not, and none that is deleted or of another platform', async () => {
  const deviceIdHash = newAddress();
  const options = { usesFcm: true, deviceIdHash };
  const find = () => store.devices.findByDeviceId(APP, 'android', deviceIdHash);
  expect(await find()).toBeUndefined();
  await store.devices.register(APP, 'ios', undefined, options);
  expect(await find()).toBeUndefined();
  const address = addressOf(newAddress());
  const { token } = await store.devices.register(APP, 'android', address, options);
  expect(await find()).toBe(token);
  await store.devices.register(APP, 'android', address, { usesFcm: true });
  expect(await find()).toBe(token);
  const { token: next } = await store.devices.register(APP, 'android', undefined, options);
  expect(await find()).toBe(next);
  await store.deletedDevices.markDeleted(APP, next);
  expect(await find()).toBe(token);
  await store.deletedDevices.markDeleted(APP, token);
  expect(await find()).toBeUndefined();
});

test('of devices that have replaced each other, all former ones are deleted with the last', async () => {
  const address = newAddress();
  const tokens: string[] = [];
  for (let n = 0; n < 4; n += 1) {
    const { token, replaced } = await register(address, APP, store, true);
    tokens.push(token);
    for (const one of replaced) await store.deletedDevices.clearLeftovers(APP, one);
  }
  const last = tokens.at(-1) ?? '';
  await store.deletedDevices.markDeleted(APP, last);
  await store.deletedDevices.clearLeftovers(APP, last);
  for (const token of tokens)
    expect(await store.devices.find(token)).toMatchObject({ deletedAt: expect.any(Date) });
});

test('a connect that was begun before changes nothing of a former device', async () => {
  const address = newAddress();
  const { token } = await register(address, APP, store, true);
  await store.devices.markConnected(token);
  expect(await store.devices.find(token)).toMatchObject({ way: 'mqtt' });
  await register(address, APP, store, true);
  await store.devices.markConnected(token);
  expect(await store.devices.find(token)).toMatchObject({
    way: 'fcm',
    provider: { address, formerOf: token },
  });
});

test.each<
  [
    what: string,
    work: Partial<Batch>,
    fallback: 'closed' | 'ready' | 'of another' | undefined,
    offered: boolean,
  ]
>([
  ['is closed and has no fallback', { state: 'closed' }, undefined, true],
  ['is closed and has a fallback', { state: 'closed' }, 'closed', false],
  ['is closed and has a fallback for later', { state: 'closed' }, 'ready', true],
  ['is closed and has one for another recipient', { state: 'closed' }, 'of another', true],
  ['is open, so that its worker makes the fallback', { state: 'ready' }, undefined, false],
  ['FCM has accepted', { state: 'closed', sent: { 0: 1 } }, 'closed', false],
])(
  'of a former device the row of a push whose batch %s is handed over',
  async (_what, work, fallback, offered) => {
    const address = newAddress();
    const { token } = await register(address);
    const push = newPushId(Date.now());
    const batch = { ...createEmbeddedBatch('mqtt', [token], 'ready', new Date()).work, ...work };
    const { db } = under;
    const batches = db.collection<BatchDocument>('batches');
    await db.collection<PushDocument>('pushes').insertOne(buildPush({ _id: push, work: batch }));
    const row = { _id: `${token}:${push}`, push, work: push, position: 0 };
    await db.collection<InboxDocument>('inbox').insertOne(row);
    if (fallback !== undefined) {
      const times = { dueAtMs: Date.now() + 3_600_000, nowMs: Date.now() };
      const isOfAnother = fallback === 'of another';
      const recipients = [{ token: isOfAnother ? 'another' : token }];
      const later = createFallbackBatch({ id: push, push, app: APP, recipients, ...times });
      const state = isOfAnother ? 'ready' : fallback;
      await batches.insertOne({ ...later, work: { ...later.work, state } });
    }
    await register(address, APP, store, true);
    const isOwn = fallback === undefined || fallback === 'of another';
    const id = isOwn ? fallbackBatchId(push, 0) : fallbackBatchId(push);
    expect(await store.deletedDevices.clearLeftovers(APP, token)).toEqual({
      fallbacks: offered ? [id] : [],
      pushes: work.sent === undefined ? [] : [push],
    });
    const isSent = work.sent !== undefined;
    const pushes = db.collection<PushDocument>('pushes');
    expect((await pushes.findOne({ _id: push }))?.work?.done).toEqual(
      isSent ? { 0: 1 } : undefined,
    );
    expect(await store.inbox.count(token)).toBe(isSent ? 0 : 1);
    expect(await batches.countDocuments({ push })).toBe(
      (offered && isOwn ? 1 : 0) + (fallback === undefined ? 0 : 1),
    );
    const isDue = { 'work.state': 'ready', 'work.at': { $lte: new Date() } } as const;
    expect(await batches.countDocuments({ _id: id, ...isDue })).toBe(offered ? 1 : 0);
  },
);
