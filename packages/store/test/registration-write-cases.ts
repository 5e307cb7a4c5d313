import type { Db } from 'mongodb';
import type { TestStore } from '../../../test/support/open-store.ts';
import { ensureIndexes } from '../src/migrate.ts';
import {
  ACCOUNT,
  APP,
  anHourAgo,
  batch,
  batchInInbox,
  createUniqueIndexes,
  inAnHour,
  insertDocuments,
  insertInboxRows,
  PUSH,
  push,
} from './document-fixtures.ts';

/** One call of a function of the store. */
export interface Case {
  /** Writes the documents that the call needs; `db` is not the store's own connection. */
  given?: (db: Db) => Promise<void>;
  call: (store: TestStore) => unknown;
}

const ADDRESS = { channel: 'fcm', address: 'fcm1' } as const;

const NOW = new Date();

const SECRET = { v: 1 } as never;

function device(fields: object = {}) {
  const times = { registeredAt: NOW, lastActiveAt: NOW };
  return { _id: 'device1', app: APP, platform: 'android', ...times, ...fields };
}

function subscription(topic: string, fields: object = {}) {
  const _id = `${APP}:${topic}:device1`;
  return { _id, token: 'device1', platform: 'android', since: anHourAgo(), ...fields };
}

const account = { _id: ACCOUNT, name: 'One', plan: 'pro', createdAt: NOW };

const credential = { _id: `${APP}:fcm`, app: APP, channel: 'fcm', revision: 'r1' };

/** Functions that write accounts, devices and topics, with one case for each way that sends other statements. */
export const REGISTRATION_WRITE_CASES: Record<string, Case | Record<string, Case>> = {
  'accounts.create': { call: (store) => store.accounts.create('One', 'pro') },
  'accounts.limit': {
    given: (db) => insertDocuments(db, 'accounts', account),
    call: (store) => store.accounts.limit(ACCOUNT, 5),
  },
  'accounts.suspend': {
    given: (db) => insertDocuments(db, 'accounts', account),
    call: (store) => store.accounts.suspend(ACCOUNT),
  },
  'accounts.resume': {
    given: (db) => insertDocuments(db, 'accounts', { ...account, suspendedAt: NOW }),
    call: (store) => store.accounts.resume(ACCOUNT),
  },
  'erasure.eraseFromPushes': {
    async given(db) {
      await ensureIndexes(db);
      await insertDocuments(db, 'pushes', push({ work: batchInInbox() }));
      await insertDocuments(db, 'batches', batch());
    },
    call: ({ erasure }) => erasure.eraseFromPushes(APP, 'device1', ''),
  },
  'erasure.removeRecord': {
    given: (db) => insertDocuments(db, 'devices', device({ deletedAt: anHourAgo() })),
    call: ({ erasure }) => erasure.removeRecord('device1', Date.now()),
  },
  'imports.importDevices': {
    'new ones': {
      call: ({ imports }) =>
        imports.importDevices(APP, [
          { token: 'device1', platform: 'android', provider: ADDRESS },
          { platform: 'electron' },
        ]),
    },
    'existing ones': {
      given: (db) => insertDocuments(db, 'devices', device()),
      call: ({ imports }) =>
        imports.importDevices(APP, [{ token: 'device1', platform: 'android' }]),
    },
  },
  'imports.importSubscriptions': {
    given: (db) => insertDocuments(db, 'subscriptions', subscription('news')),
    call: ({ imports }) =>
      imports.importSubscriptions(
        APP,
        ['news', 'sport'].map((topic) => ({ topic, token: 'device1', platform: 'android' })),
      ),
  },
  'apps.create': { call: (store) => store.apps.create('One', ACCOUNT) },
  'apps.updateSettings': {
    'to a value': {
      given: (db) => insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT, name: 'One' }),
      call: (store) => store.apps.updateSettings(APP, { payloadLimit: 5 }),
    },
    'to no names': {
      given: (db) =>
        insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT, webHosts: ['example.org'] }),
      call: (store) => store.apps.updateSettings(APP, { webHosts: [] }),
    },
  },
  'apps.markIosOverMqtt': {
    given: (db) => insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT, name: 'One' }),
    call: (store) => store.apps.markIosOverMqtt(APP),
  },
  'keys.create': { call: (store) => store.keys.create(APP, 'digest', 'four') },
  'keys.revoke': {
    given: (db) => insertDocuments(db, 'keys', { _id: 'key1', app: APP }),
    call: (store) => store.keys.revoke('key1'),
  },
  'keys.markUsed': {
    given: (db) => insertDocuments(db, 'keys', { _id: 'key1', app: APP }),
    call: (store) => store.keys.markUsed([{ id: 'key1', at: 1_000 }]),
  },
  'credentials.put': {
    call: (store) => store.credentials.put({ app: APP, channel: 'fcm' }, SECRET, {}),
  },
  'credentials.replace': {
    given: (db) => insertDocuments(db, 'credentials', credential),
    call: (store) => store.credentials.replace(credential as never, SECRET, {}),
  },
  'credentials.reseal': {
    given: (db) => insertDocuments(db, 'credentials', credential),
    call: (store) => store.credentials.reseal(credential, SECRET),
  },
  'credentials.remove': {
    given: (db) => insertDocuments(db, 'credentials', credential),
    call: (store) => store.credentials.remove({ app: APP, channel: 'fcm' }),
  },
  'credentials.recordRefusal': {
    given: (db) => insertDocuments(db, 'credentials', credential),
    call: (store) => store.credentials.recordRefusal(credential._id, 'r1', 'no', 1_000),
  },
  'credentials.clearRefusal': {
    given: (db) => insertDocuments(db, 'credentials', { ...credential, refused: { detail: 'no' } }),
    call: (store) => store.credentials.clearRefusal(credential._id, 'r1'),
  },
  'devices.register': {
    async given(db) {
      await createUniqueIndexes(db);
      await insertDocuments(db, 'devices', device({ provider: { ...ADDRESS, since: NOW } }));
    },
    call: (store) => store.devices.register(APP, 'android', ADDRESS),
  },
  'devices.setAddress': {
    async given(db) {
      await createUniqueIndexes(db);
      const other = device({ _id: 'device2', provider: { ...ADDRESS, since: NOW } });
      await insertDocuments(db, 'devices', device(), other);
    },
    call: (store) => store.devices.setAddress(APP, 'device1', ADDRESS),
  },
  'devices.flagGone': {
    given: (db) =>
      insertDocuments(db, 'devices', device({ provider: { ...ADDRESS, since: anHourAgo() } })),
    call: (store) =>
      store.devices.flagGone(APP, [{ token: 'device1', address: 'fcm1', flag: 'uninstalled' }]),
  },
  'devices.touch': {
    given: (db) => insertDocuments(db, 'devices', device()),
    call: (store) => store.devices.touch([{ token: 'device1', at: inAnHour().getTime() }]),
  },
  'deletedDevices.markDeleted': {
    given: (db) => insertDocuments(db, 'devices', device({ provider: ADDRESS })),
    call: (store) => store.deletedDevices.markDeleted(APP, 'device1'),
  },
  'deletedDevices.clearLeftovers': {
    given: async (db) => {
      await insertDocuments(db, 'devices', device({ deletedAt: NOW, leaving: true }));
      await insertDocuments(db, 'pushes', push({ work: batchInInbox() }));
      await insertInboxRows(db, PUSH);
      await insertDocuments(db, 'subscriptions', subscription('news'));
    },
    call: (store) => store.deletedDevices.clearLeftovers(APP, 'device1'),
  },
  'subscriptions.subscribe': {
    'to new topics': {
      call: (store) =>
        store.subscriptions.subscribe(APP, { token: 'device1', platform: 'ios' }, ['a', 'b']),
    },
    'to a topic that it is unsubscribing from': {
      given: (db) =>
        insertDocuments(db, 'subscriptions', subscription('a', { pending: -1, by: 'other' })),
      call: (store) =>
        store.subscriptions.subscribe(APP, { token: 'device1', platform: 'ios' }, ['a']),
    },
  },
  'subscriptions.unsubscribe': {
    given: (db) => insertDocuments(db, 'subscriptions', subscription('a')),
    call: (store) => store.subscriptions.unsubscribe(APP, 'device1', ['a']),
  },
  'topicChangeLocks.acquire': {
    given: (db) => insertDocuments(db, 'devices', device()),
    call: (store) => store.topicChangeLocks.acquire('device1', 'one'),
  },
  'topicChangeLocks.release': {
    given: (db) =>
      insertDocuments(db, 'devices', device({ topicsLock: { owner: 'one', until: NOW } })),
    call: (store) => store.topicChangeLocks.release('device1', 'one'),
  },
  'topics.recountInterrupted': {
    given: (db) => insertDocuments(db, 'subscriptions', subscription('a', { pending: 1 })),
    call: (store) => store.topics.recountInterrupted(10),
  },
  'pageCursors.set': { call: (store) => store.pageCursors.set(APP, 'news', 2, 'device1') },
  'proxyWarnings.record': {
    call: (store) => store.proxyWarnings.record('api-forwarded-header'),
  },
  migrate: { call: (store) => store.migrate() },
};
