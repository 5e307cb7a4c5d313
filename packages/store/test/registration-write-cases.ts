import { ensureIndexes } from '../src/migrate.ts';
import {
  ACCOUNT,
  APP,
  after,
  anHourAgo,
  batch,
  batchInInbox,
  type Cases,
  createUniqueIndexes,
  inAnHour,
  inboxRows,
  insertDocuments,
  on,
  PUSH,
  push,
} from './document-fixtures.ts';

const ADDRESS = { channel: 'fcm', address: 'fcm1' } as const;

const LIVE = {
  channel: 'apns',
  address: 'ab',
  environment: 'production',
  bundle: 'org.example',
  kind: 'liveactivity',
} as const;

const NOW = new Date();

const SECRET = { v: 1 } as never;

function device(fields: object = {}) {
  const times = { registeredAt: NOW, lastActiveAt: NOW };
  return { _id: 'device1', app: APP, platform: 'android', ...times, ...fields };
}

/** A former device that is not cleared yet. */
function formerDevice() {
  const provider = { ...ADDRESS, since: NOW, formerOf: 'device1' };
  return device({ provider, replacedBy: 'device2', replacedAt: NOW, leaving: true });
}

function subscription(topic: string, fields: object = {}) {
  const _id = `${APP}:${topic}:device1`;
  return { _id, token: 'device1', platform: 'android', since: anHourAgo(), ...fields };
}

const account = { _id: ACCOUNT, name: 'One', plan: 'pro', createdAt: NOW };

const credential = { _id: `${APP}:fcm`, app: APP, channel: 'fcm', revision: 'r1' };

/** Functions that write accounts, devices and topics, with one case for each way that sends other statements. */
export const REGISTRATION_WRITE_CASES: Cases = {
  'accounts.create': (store) => store.accounts.create('One', 'pro'),
  'accounts.rename': on({ accounts: account }, (store) => store.accounts.rename(ACCOUNT, 'Two')),
  'accounts.limit': on({ accounts: account }, (store) => store.accounts.limit(ACCOUNT, 5)),
  'accounts.suspend': on({ accounts: account }, (store) => store.accounts.suspend(ACCOUNT)),
  'accounts.resume': on({ accounts: { ...account, suspendedAt: NOW } }, (store) =>
    store.accounts.resume(ACCOUNT),
  ),
  'erasure.eraseFromPushes': on(
    { pushes: push({ work: batchInInbox() }), batches: batch() },
    ({ erasure }) => erasure.eraseFromPushes(APP, 'device1', ''),
    ensureIndexes,
  ),
  'erasure.removeRecord': on({ devices: device({ deletedAt: anHourAgo() }) }, ({ erasure }) =>
    erasure.removeRecord('device1', Date.now()),
  ),
  'imports.importDevices': {
    'new ones': ({ imports }) =>
      imports.importDevices(APP, [
        { token: 'device1', platform: 'android', provider: ADDRESS },
        { platform: 'electron' },
      ]),
    'existing ones': on({ devices: device() }, ({ imports }) =>
      imports.importDevices(APP, [{ token: 'device1', platform: 'android' }]),
    ),
  },
  'imports.importSubscriptions': on({ subscriptions: subscription('news') }, ({ imports }) =>
    imports.importSubscriptions(
      APP,
      ['news', 'sport'].map((topic) => ({ topic, token: 'device1', platform: 'android' })),
    ),
  ),
  'apps.create': (store) => store.apps.create('One', ACCOUNT),
  'apps.updateSettings': {
    'to a value': on({ apps: { _id: APP, account: ACCOUNT, name: 'One' } }, (store) =>
      store.apps.updateSettings(APP, { payloadLimit: 5 }),
    ),
    'to no names': on(
      { apps: { _id: APP, account: ACCOUNT, webHosts: ['example.org'] } },
      (store) => store.apps.updateSettings(APP, { webHosts: [] }),
    ),
  },
  'apps.pause': on({ apps: { _id: APP, account: ACCOUNT, name: 'One' } }, (store) =>
    store.apps.pause(APP),
  ),
  'apps.resume': on({ apps: { _id: APP, account: ACCOUNT, name: 'One', pausedAt: NOW } }, (store) =>
    store.apps.resume(APP),
  ),
  'apps.markAcceptancesRecorded': on(
    { apps: { _id: APP, account: ACCOUNT, name: 'One', pruneAfterDays: 90 } },
    (store) => store.apps.markAcceptancesRecorded(APP),
  ),
  'apps.markIosOverMqtt': on({ apps: { _id: APP, account: ACCOUNT, name: 'One' } }, (store) =>
    store.apps.markIosOverMqtt(APP),
  ),
  'keys.create': (store) => store.keys.create(APP, 'digest', 'four'),
  'keys.revoke': on({ keys: { _id: 'key1', app: APP } }, (store) => store.keys.revoke('key1')),
  'keys.markUsed': on({ keys: { _id: 'key1', app: APP } }, (store) =>
    store.keys.markUsed([{ id: 'key1', at: 1_000 }]),
  ),
  'credentials.put': (store) => store.credentials.put({ app: APP, channel: 'fcm' }, SECRET, {}),
  'credentials.replace': on({ credentials: credential }, (store) =>
    store.credentials.replace(credential as never, SECRET, {}),
  ),
  'credentials.reseal': on({ credentials: credential }, (store) =>
    store.credentials.reseal(credential, SECRET),
  ),
  'credentials.remove': on({ credentials: credential }, (store) =>
    store.credentials.remove({ app: APP, channel: 'fcm' }),
  ),
  'credentials.recordRefusal': on({ credentials: credential }, (store) =>
    store.credentials.recordRefusal(credential._id, 'r1', 'no', 1_000),
  ),
  'credentials.clearRefusal': {
    'of a moment': on({ credentials: { ...credential, refused: { detail: 'no' } } }, (store) =>
      store.credentials.clearRefusal(credential._id, 'r1'),
    ),
    'of a long time': on(
      { credentials: { ...credential, refused: { detail: 'no', since: new Date(0) } } },
      (store) => store.credentials.clearRefusal(credential._id, 'r1'),
    ),
  },
  'devices.register': {
    'where another device can be reached as a former one': on(
      { devices: device({ provider: { ...ADDRESS, since: NOW } }) },
      (store) => store.devices.register(APP, 'android', ADDRESS, { usesFcm: true }),
      createUniqueIndexes,
    ),
    'where another device is deleted': on(
      { devices: device({ provider: { ...ADDRESS, since: NOW } }) },
      (store) => store.devices.register(APP, 'android', ADDRESS),
      createUniqueIndexes,
    ),
  },
  'devices.renew': on({ devices: device() }, (store) =>
    store.devices.renew(APP, 'device1', ADDRESS, { deviceIdHash: 'hash', expiresInSeconds: 60 }),
  ),
  'devices.setAddress': {
    'that another device has': after(
      async (db) => {
        await createUniqueIndexes(db);
        const other = device({ _id: 'device2', provider: { ...ADDRESS, since: NOW } });
        await insertDocuments(db, 'devices', device(), other);
      },
      (store) => store.devices.setAddress(APP, 'device1', ADDRESS),
    ),
    'of the same kind': on({ devices: device({ provider: { ...LIVE, since: NOW } }) }, (store) =>
      store.devices.setAddress(APP, 'device1', LIVE, { keepsKind: true }),
    ),
  },
  'devices.flagGone': on(
    { devices: device({ provider: { ...ADDRESS, since: anHourAgo() } }) },
    (store) =>
      store.devices.flagGone(APP, [{ token: 'device1', address: 'fcm1', flag: 'uninstalled' }]),
  ),
  'devices.markConnected': on({ devices: device({ uninstalled: true }) }, (store) =>
    store.devices.markConnected('device1'),
  ),
  'devices.markSeen': on({ devices: device({ lastActiveAt: new Date(0) }) }, (store) =>
    store.devices.markSeen('device1'),
  ),
  'devices.restore': on(
    { devices: device({ replacedBy: 'device2', provider: { ...ADDRESS, since: NOW } }) },
    (store) => store.devices.restore(APP, 'device1'),
  ),
  'devices.touch': on({ devices: device() }, (store) =>
    store.devices.touch([{ token: 'device1', at: inAnHour().getTime() }]),
  ),
  'deletedDevices.deleteIdle': on(
    { devices: device({ lastActiveAt: new Date(0) }) },
    (store) => store.deletedDevices.deleteIdle(APP, ['device1', 'device2'], anHourAgo()),
    ensureIndexes,
  ),
  'deletedDevices.clearIdle': on(
    {
      devices: device({ deletedAt: NOW, leaving: true }),
      pushes: push({ work: batchInInbox() }),
      inbox: inboxRows(PUSH),
      subscriptions: subscription('news'),
    },
    (store) => store.deletedDevices.clearIdle(APP, ['device1', 'device2']),
  ),
  'deletedDevices.clearAgain': on({ devices: device({ replacedBy: 'device2' }) }, (store) =>
    store.deletedDevices.clearAgain('device1'),
  ),
  'deletedDevices.markDeleted': on({ devices: device({ provider: ADDRESS }) }, (store) =>
    store.deletedDevices.markDeleted(APP, 'device1'),
  ),
  'deletedDevices.clearLeftovers': {
    'of a deleted device': on(
      {
        devices: device({ deletedAt: NOW, leaving: true }),
        pushes: push({ work: batchInInbox() }),
        inbox: inboxRows(PUSH),
        subscriptions: subscription('news'),
      },
      (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
    ),
    'of one that has ended': on(
      { devices: device({ deletedAt: NOW, leaving: true, ended: true }) },
      (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
    ),
    'of a former device': on(
      {
        devices: [formerDevice(), device({ _id: 'device2' })],
        pushes: push({ work: batchInInbox() }),
        inbox: inboxRows(PUSH),
        subscriptions: subscription('news'),
      },
      (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
    ),
    'of a former device without a successor': on(
      { devices: formerDevice() },
      (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
      createUniqueIndexes,
    ),
    'of a former device whose address another one has registered': on(
      {
        devices: [formerDevice(), device({ _id: 'device3', provider: { ...ADDRESS, since: NOW } })],
      },
      (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
      createUniqueIndexes,
    ),
  },
  'deletedDevices.deleteOldFormers': on({ devices: formerDevice() }, (store) =>
    store.deletedDevices.deleteOldFormers(Date.now() + 2 * 365 * 86_400_000, 10),
  ),
  'deletedDevices.deleteExpired': on({ devices: device({ expiresAt: anHourAgo() }) }, (store) =>
    store.deletedDevices.deleteExpired(Date.now(), 10),
  ),
  'subscriptions.subscribe': {
    'to new topics': (store) =>
      store.subscriptions.subscribe(APP, { token: 'device1', platform: 'ios' }, ['a', 'b']),
    'to a topic that it is unsubscribing from': on(
      { subscriptions: subscription('a', { pending: -1, by: 'other' }) },
      (store) => store.subscriptions.subscribe(APP, { token: 'device1', platform: 'ios' }, ['a']),
    ),
  },
  'subscriptions.unsubscribeAll': on({ subscriptions: subscription('a') }, (store) =>
    store.subscriptions.unsubscribeAll(APP, ['device1', 'device2']),
  ),
  'subscriptions.unsubscribe': on({ subscriptions: subscription('a') }, (store) =>
    store.subscriptions.unsubscribe(APP, 'device1', ['a']),
  ),
  'topicChangeLocks.acquire': on({ devices: device() }, (store) =>
    store.topicChangeLocks.acquire('device1', 'one'),
  ),
  'topicChangeLocks.release': on(
    { devices: device({ topicsLock: { owner: 'one', until: NOW } }) },
    (store) => store.topicChangeLocks.release('device1', 'one'),
  ),
  'topics.recountInterrupted': on({ subscriptions: subscription('a', { pending: 1 }) }, (store) =>
    store.topics.recountInterrupted(10),
  ),
  'pageCursors.set': (store) => store.pageCursors.set(APP, 'news', 2, 'device1'),
  'proxyWarnings.record': (store) => store.proxyWarnings.record('api-forwarded-header'),
  migrate: (store) => store.migrate(),
};
