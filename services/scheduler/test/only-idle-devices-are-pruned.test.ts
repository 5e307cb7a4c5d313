import { newObjectId } from '@carillon/core/ids';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { createMetrics } from '../../../packages/runtime/src/metrics.ts';
import type { DeviceDocument } from '../../../packages/store/src/documents.ts';
import { profile } from '../../../packages/store/test/store-under-test.ts';
import { useStore } from '../../../packages/store/test/use-store.ts';
import { exportIdleDevices } from '../src/idle-devices.ts';
import { createPrune, type PrunedApp } from '../src/prune.ts';

const DAY_MS = 86_400_000;
const AFTER_DAYS = 90;
const daysAgo = (days: number) => new Date(Date.now() - days * DAY_MS);

const under = useStore();
const { store } = under;
const devices = () => under.db.collection<DeviceDocument>('devices');

let app: string;
let reported: PrunedApp[];
beforeEach(async () => {
  app = await createApp(AFTER_DAYS);
  reported = [];
});

async function createApp(pruneAfterDays: number): Promise<string> {
  const id = await store.apps.create('Test', await store.accounts.create('Test', 'pro'));
  await putCredential(id);
  await store.apps.updateSettings(id, { pruneAfterDays });
  return id;
}

const putCredential = (of: string) =>
  store.credentials.put({ app: of, channel: 'fcm' }, { v: 1 } as never, {});
const apps = () => under.db.collection<{ _id: string }>('apps');
/** Makes what providers accept known since some days ago. */
const setRecorded = (days: number) =>
  apps().updateOne({ _id: app }, { $set: { acceptancesSince: daysAgo(days) } });

/** Stores devices that were not seen for 100 days. */
async function insert(of: string, fields: object = {}, count = 1): Promise<string[]> {
  const common = { app: of, platform: 'electron', registeredAt: daysAgo(100) };
  const documents = Array.from({ length: count }, () => ({
    ...{ ...common, _id: newObjectId(), lastActiveAt: daysAgo(100) },
    ...fields,
  }));
  await devices().insertMany(documents as never[]);
  return documents.map(({ _id }) => _id);
}

const noneOnline = async (tokens: readonly string[]) => tokens.map(() => false);
const createTick = (areOnline: typeof noneOnline = noneOnline) =>
  createPrune(store, { checkCompletion: async () => undefined }, areOnline, (one) =>
    reported.push(one),
  );
const countThere = (of: string) =>
  devices().countDocuments({ app: of, deletedAt: { $exists: false } });

const address = (since: Date, fields: object = {}) => ({
  provider: { channel: 'fcm', address: newObjectId(), since, ...fields },
});

describe('a device that was not seen for 100 days in an app that prunes after 90', () => {
  test.each<{ name: string; fields?: object; recordedDays?: number; stays: boolean }>([
    { name: 'is deleted', stays: false },
    { name: 'stays while it was seen since', fields: { lastActiveAt: daysAgo(89) }, stays: true },
    {
      name: 'is deleted if its provider has reported it as gone',
      fields: { ...address(daysAgo(100)), uninstalled: true },
      stays: false,
    },
    {
      name: 'stays with an address while what its provider accepts was not recorded all the time',
      fields: address(daysAgo(100)),
      recordedDays: 90,
      stays: true,
    },
    {
      name: 'is deleted if its provider has accepted nothing since',
      fields: address(daysAgo(100)),
      recordedDays: 92,
      stays: false,
    },
    {
      name: 'stays if its provider may have accepted something since: that is recorded to a day',
      fields: { ...address(daysAgo(100)), lastActiveAt: daysAgo(90.5) },
      recordedDays: 92,
      stays: true,
    },
    {
      name: 'stays if it has registered another address since',
      fields: { ...address(daysAgo(10)), uninstalled: true },
      stays: true,
    },
    { name: 'stays if it was imported since', fields: { importedAt: daysAgo(80) }, stays: true },
    {
      name: 'is deleted if it was imported before',
      fields: { importedAt: daysAgo(91) },
      stays: false,
    },
    {
      name: 'stays as long as its successor if it is a former one',
      fields: { replacedBy: 'other', replacedAt: daysAgo(1) },
      stays: true,
    },
  ])('$name', async ({ fields, recordedDays, stays }) => {
    if (recordedDays !== undefined) await setRecorded(recordedDays);
    await insert(app, fields);
    await createTick()();
    expect(await countThere(app)).toBe(stays ? 1 : 0);
    expect(reported).toEqual(stays ? [] : [{ app, deleted: 1, connected: 0 }]);
  });

  test('stays and counts as seen now if it is connected, and nothing is deleted without presence', async () => {
    const [token = ''] = await insert(app);
    const failing = createTick(() => Promise.reject(new Error('Redis fails')));
    await expect(failing()).rejects.toThrow('Redis fails');
    expect(await countThere(app)).toBe(1);
    await createTick(async (tokens) => tokens.map(() => true))();
    expect((await devices().findOne({ _id: token }))?.lastActiveAt.getTime()).toBeGreaterThan(
      daysAgo(1).getTime(),
    );
    expect(reported).toEqual([]);
  });
});

/** What held an app's deliveries back, or kept a provider from accepting them. */
const GAPS: {
  name: string;
  begin: () => Promise<unknown>;
  end?: () => Promise<unknown>;
  /** Devices without an address could be seen all the time. */
  others: 'stay' | 'stay meanwhile' | 'are deleted';
}[] = [
  {
    name: 'its app is paused',
    begin: () => store.apps.pause(app),
    end: () => store.apps.resume(app),
    others: 'stay meanwhile',
  },
  {
    name: 'its account is suspended: it cannot register',
    begin: async () => store.accounts.suspend(await accountOf()),
    end: async () => store.accounts.resume(await accountOf()),
    others: 'stay',
  },
  {
    name: 'the credential is refused',
    begin: async () => {
      const { _id, revision } = await findCredential();
      await store.credentials.recordRefusal(_id, revision, '401', -1);
      const since = daysAgo(80);
      await credentials().updateOne({ _id }, { $set: { 'refused.since': since } });
    },
    end: async () => {
      const { _id, revision } = await findCredential();
      expect(await store.credentials.clearRefusal(_id, revision)).toBe(true);
    },
    others: 'are deleted',
  },
  {
    name: 'the credential is missing',
    begin: () => store.credentials.remove({ app, channel: 'fcm' }),
    end: () => putCredential(app),
    others: 'are deleted',
  },
  {
    name: 'the credential is another one since',
    begin: async () => store.credentials.replace(await findCredential(), { v: 1 } as never, {}),
    others: 'are deleted',
  },
];
const accountOf = async () => (await store.apps.find(app))?.account ?? '';
const credentials = () => under.db.collection<{ _id: string }>('credentials');
async function findCredential() {
  const found = await store.credentials.find({ app, channel: 'fcm' });
  if (found === undefined) throw new Error('no credential');
  return found;
}

test.each(GAPS)(
  'a device with a live address stays while $name, and then as long as after the setting was turned on',
  async ({ begin, end, others }) => {
    await insert(app, address(daysAgo(100)));
    await setRecorded(200);
    await begin();
    await createTick()();
    if (end !== undefined) {
      // As if the scheduler had come to the app just before.
      await setRecorded(200);
      await createTick()();
      expect(await countThere(app)).toBe(1);
      await insert(app);
      await createTick()();
      expect(await countThere(app)).toBe(others === 'are deleted' ? 1 : 2);
      await end();
    }
    await createTick()();
    expect(await countThere(app)).toBe(others === 'stay' ? 2 : 1);
    await setRecorded(92);
    const longAgo = { $set: { resumedAt: daysAgo(92) } };
    await under.db
      .collection<{ _id: string }>('accounts')
      .updateOne({ _id: await accountOf() }, longAgo);
    await createTick()();
    expect(await countThere(app)).toBe(0);
  },
);

test('a device whose address another one has taken, and which is not seen any more, lives again', async () => {
  const fcm = { channel: 'fcm', address: newObjectId() } as const;
  const { token } = await store.devices.register(app, 'android', fcm, { usesFcm: true });
  const { token: next } = await store.devices.register(app, 'android', fcm, { usesFcm: true });
  expect(await store.devices.find(token)).toMatchObject({ replacedBy: next });
  const longAgo = { lastActiveAt: daysAgo(100), 'provider.since': daysAgo(100) };
  await devices().updateOne({ _id: next }, { $set: longAgo });
  await setRecorded(92);
  await createTick()();
  expect(await store.devices.find(next)).toHaveProperty('deletedAt');
  // As the scheduler does with all that are not cleared.
  for (const one of await store.deletedDevices.listUncleared('', 10))
    await store.deletedDevices.clearLeftovers(one.app, one.token);
  const device = await devices().findOne({ _id: token });
  for (const field of ['deletedAt', 'replacedBy', 'leaving'])
    expect(device).not.toHaveProperty(field);
  expect(device?.provider).toMatchObject(fcm);
  expect(device?.provider).not.toHaveProperty('formerOf');
});

test('a prune counts and clears what it has deleted alone, and leaves what has ended by its own time', async () => {
  const [idle = ''] = await insert(app);
  const [erased = ''] = await insert(app);
  const [ended = ''] = await insert(app, { expiresAt: daysAgo(1) });
  await insert(app, { replacedBy: erased, replacedAt: daysAgo(1) });
  await createTick(async (tokens) => {
    if (tokens.includes(erased)) await store.deletedDevices.markDeleted(app, erased);
    return tokens.map(() => false);
  })();
  expect(reported).toEqual([{ app, deleted: 1, connected: 0 }]);
  expect(await store.devices.find(idle)).not.toHaveProperty('prunedBy');
  expect(await devices().findOne({ _id: ended })).not.toHaveProperty('deletedAt');
  // It is cleared as a backend's deletion is: with its former devices.
  await store.deletedDevices.clearLeftovers(app, erased);
  expect(await countThere(app)).toBe(1);
});

test.each([{ channel: 'fcm', address: 'another' } as const, undefined])(
  'a device that has changed its address to %j was seen',
  async (changed) => {
    const [token = ''] = await insert(app, address(daysAgo(100)));
    await store.devices.setAddress(app, token, changed);
    await store.devices.setAddress(app, token, undefined);
    await createTick()();
    expect(await countThere(app)).toBe(1);
  },
);

test('a refusal of a moment is no gap', async () => {
  await insert(app, address(daysAgo(100)));
  await setRecorded(92);
  const { _id, revision } = await findCredential();
  await store.credentials.recordRefusal(_id, revision, '401', -1);
  await store.credentials.clearRefusal(_id, revision);
  await createTick()();
  expect(await countThere(app)).toBe(0);
});

test.each([null, 120])(
  'a setting that becomes %s stops a tick that runs',
  async (pruneAfterDays) => {
    const own = await insert(app, {}, 2_500);
    await createTick(async (tokens) => {
      if (tokens.some((token) => own.includes(token)))
        await store.apps.updateSettings(app, { pruneAfterDays });
      return tokens.map(() => false);
    })();
    expect(await countThere(app)).toBe(1_500);
  },
);

test('an app whose devices cannot be read holds up no other, and its own setting ends', async () => {
  const failing = await insert(app);
  const later = await createApp(AFTER_DAYS);
  await insert(later);
  const tick = createTick(async (tokens) => {
    if (tokens.some((token) => failing.includes(token))) throw new Error('fails');
    return tokens.map(() => false);
  });
  await expect(tick()).rejects.toThrow('fails');
  expect([await countThere(app), await countThere(later)]).toEqual([1, 0]);
  await store.apps.updateSettings(app, { pruneAfterDays: null });
  expect(await store.apps.find(app)).not.toHaveProperty('acceptancesSince');
  await createTick()();
  expect(await countThere(app)).toBe(1);
});

test('the devices of an app are read page after page, by turns with those of another app', async () => {
  const other = await createApp(AFTER_DAYS);
  for (const one of [app, other]) await insert(one, {}, 2_500);
  const tick = createTick();
  // On a busy machine a tick ends before all pages are done, and the next one goes on.
  for (let n = 0; n < 6 && reported.length < 6; n += 1) await tick();
  expect(new Set(reported.slice(0, 2).map((one) => one.app)).size).toBe(2);
  const pagesOf = (of: string) =>
    reported.filter((one) => one.app === of).map(({ deleted }) => deleted);
  for (const one of [app, other]) expect(pagesOf(one)).toEqual([1_000, 1_000, 500]);
  expect([await countThere(app), await countThere(other)]).toEqual([0, 0]);
});

test('idle devices are counted without those that were imported since, and up to a limit', async () => {
  await insert(app, {}, 3);
  // Seen after them, so that it is not among the first.
  await insert(app, { importedAt: daysAgo(1), lastActiveAt: daysAgo(95) });
  await insert(app, { lastActiveAt: daysAgo(1) });
  await insert(app, { deletedAt: daysAgo(1) });
  const count = (limit: number) => store.idleDevices.count(app, daysAgo(90), limit);
  expect([await count(10), await count(2)]).toEqual([3, 2]);
});

test('an app whose count fails is left out of the metric and is not counted again at once', async () => {
  await under.clear();
  const [first = '', second = ''] = [
    await createApp(AFTER_DAYS),
    await createApp(AFTER_DAYS),
  ].sort();
  for (const one of [first, second]) await insert(one, {}, 2);
  const counted: string[] = [];
  const count: typeof store.idleDevices.count = (of, ...others) => {
    counted.push(of);
    if (of === first) return Promise.reject(new Error('fails'));
    return store.idleDevices.count(of, ...others);
  };
  const metrics = createMetrics();
  const errors: unknown[] = [];
  const idleDevices = { ...store.idleDevices, count };
  const tick = exportIdleDevices(metrics, { ...store, idleDevices }, (error) => errors.push(error));
  for (let n = 0; n < 3; n += 1) await tick();
  expect(counted).toEqual([first, second]);
  expect(errors).toHaveLength(1);
  expect((await metrics.expose()).text).toContain('carillon_idle_devices 2\n');
});

test('the subscriptions of many devices are read a thousand at a time, and their topics count right', async () => {
  const tokens = await insert(app, {}, 30);
  const topics = Array.from({ length: 40 }, (_, n) => `topic${n}`);
  for (const token of tokens)
    await store.subscriptions.subscribe(app, { token, platform: 'electron' }, topics);
  const isRead = { op: { $in: ['query', 'getmore'] }, ns: /subscriptions/ };
  const end = () => store.subscriptions.unsubscribeAll(app, tokens);
  const reads = await profile(under, end, isRead);
  expect(reads.map(({ nreturned }) => nreturned)).toEqual([1_000, 1_000, 200, 200]);
  const counters = await store.topics.findCounters(app, topics);
  expect([...counters.values()].filter(({ subscribers }) => subscribers !== 0)).toEqual([]);
  expect(
    await under.db.collection('subscriptions').countDocuments({ token: { $in: tokens } }),
  ).toBe(0);
});
