import type { TestStore } from '../../../test/support/open-store.ts';
import { FIRST_RECIPIENT } from '../../reports/src/recipients.ts';
import { ACCOUNT, APP, type Call, NEWER_PUSH, PUSH, push, TOKENS } from './document-fixtures.ts';

/** The arguments of functions of a part of the store. */
type Arguments<Part> = {
  [Name in keyof Part]?: Part[Name] extends (...args: infer A) => unknown ? A : never;
};

const REDRIVE = 'c'.repeat(24);
const COLLAPSING = { _id: PUSH, app: APP, collapse: 'c' };
const SCOPE = { by: REDRIVE, to: new Date() };
const ENTRIES = {
  pushes: new Map([[PUSH, { w: 'webhook1', r: true as const, v: 0 }]]),
  batches: new Map([[`${PUSH}-000000`, { w: 'webhook1', v: 0 }]]),
  devices: new Map([['device1', { w: 'webhook1', v: 0, events: [] }]]),
};
const deviceQuery = { app: APP, token: 'device1', before: 'g', limit: 10 };

/** Functions that never write, with their arguments. */
const READS: { [Part in keyof TestStore]?: Arguments<TestStore[Part]> } = {
  accounts: { find: [ACCOUNT], list: ['', 10] },
  apps: {
    ...{ list: [ACCOUNT, '', 10], find: [APP], findByBundleIdOrHost: ['example.org'] },
    ...{ search: ['(a', [APP], 10], listIds: ['all', 10], findOwners: [[APP]] },
    listPruning: ['', 10],
  },
  keys: { owner: ['digest'], owners: [['digest']], list: [APP] },
  credentials: {
    ...{ has: [APP, 'apns'], listForChannel: [APP, 'apns'], webPushPublicKey: [APP] },
    ...{ find: [{ app: APP, channel: 'fcm' }], iterateAll: [] },
    ...{ listUnaccepted: [10, { app: { $nin: [APP] } }], list: [APP], iterateOf: ['web-push'] },
  },
  operators: {
    ...{ find: [ACCOUNT], findByName: ['Ann'], findByOpenId: ['https://id.example ann'] },
    ...{ exist: [], list: ['', 10], countOwners: [] },
  },
  sessions: { find: [Buffer.alloc(32)] },
  invites: { find: [Buffer.alloc(32)], list: ['', 10] },
  operatorTokens: { find: [Buffer.alloc(32)], list: ['', 10] },
  audit: { list: [{ accounts: 'all', limit: 10 }] },
  devices: {
    ...{ findRecipient: [APP, 'device1'], findRecipients: [APP, TOKENS] },
    ...{ findForConnect: ['device1'], find: ['device1'], findLastSeen: [APP, TOKENS] },
    ...{ findReachable: [APP, TOKENS], filterWithFcmToken: [APP, TOKENS], list: [APP, '', 10] },
    ...{ findByAddress: [[APP], 'address', 10], filterWithAppleBrowser: [[APP], 10] },
    ...{ filterWithPhonesByFcm: [[APP], 10] },
    ...{ hasAppleByFcm: [APP], addWays: [APP, [{ token: 'device1', platform: 'android' }], true] },
    ...{ findByDeviceId: [APP, 'android', 'hash'] },
  },
  idleDevices: {
    list: [APP, new Date(), { token: 'device1', lastActiveAt: new Date(0) }, 10],
    count: [APP, new Date(), 10],
  },
  deviceOverviews: { find: [APP, 'device1'] },
  deletedDevices: { listUncleared: ['', 10], filterDeleted: [new Date(), TOKENS] },
  subscriptions: {
    ...{ listTopics: ['device1'], listPage: [APP, 'news', '', 10], stream: [APP, 'news', ''] },
  },
  topics: { findCounters: [APP, ['news']], pages: [APP], listPage: [APP, '', 10] },
  pageCursors: { find: [APP, 'news', 2] },
  pushes: {
    ...{ readForSending: [[PUSH]], listDueTraces: [10], listTraces: [[PUSH], 10] },
    ...{ isSendable: [push()], find: [APP, PUSH], inspect: [PUSH] },
    ...{ payloads: [APP, [PUSH]], findApp: [PUSH] },
  },
  batches: { listTokens: [PUSH] },
  fanOuts: { findDue: [10] },
  batchTable: { findDue: [10], measureBacklog: [10] },
  appBacklog: { measure: [async () => []], lookUp: [APP, new Date()] },
  backlog: { measure: ['mqtt', 10] },
  deliveryStatus: {
    ...{ statusOfPush: [PUSH], listProviderErrors: [PUSH, 10] },
    ...{ statusOfRecipient: [PUSH, 'device1'] },
  },
  pushOutcomes: {
    ...{ find: [APP, PUSH], list: [{ app: APP, from: '', before: NEWER_PUSH, limit: 10 }] },
    ...{ summarize: [push()] },
  },
  recipients: {
    ...{ readPage: [push(), FIRST_RECIPIENT, 10], findPosition: [push(), 'device1'] },
    ...{ findOne: [push(), 'device1'] },
  },
  exportPages: {
    ...{ streamDevices: [APP, '', 10], streamSubscriptions: [APP, '', 10] },
    ...{ streamPushes: [APP, '', 10] },
  },
  pending: { findDevices: [push(), 10] },
  pushCompletion: { computePurgeAt: [1], findDue: [10] },
  inbox: {
    ...{ listRows: ['device1'], listRowsByToken: [TOKENS], filterPending: [push(), TOKENS] },
    ...{ listPendingTokens: [PUSH, 10], hasPending: [PUSH], count: ['device1'] },
  },
  inboxQuota: { filterFull: [TOKENS] },
  collapse: {
    ...{ hasNewer: [COLLAPSING, 'device1'], findNewerRecipients: [COLLAPSING, 'a', 'z'] },
    ...{ filterSuperseded: [COLLAPSING, TOKENS] },
  },
  retention: { listOpenAfter: [undefined, 10] },
  suspensions: {
    ...{ has: [APP], isPaused: [APP], listPaused: [], mayDeliver: [APP] },
    ...{ filter: [], filterSuspended: [], refresh: [] },
  },
  pushProgress: { findAccounts: [[PUSH]], readMarks: [[PUSH]], readProgress: [[PUSH]] },
  proxyWarnings: { listRecent: [1_000] },
  schema: { readVersion: [], assertUsable: [], status: [] },
  knownWebhooks: {
    ...{ refresh: [], refreshIfStale: [], startRefreshing: [() => undefined], pushEntries: [APP] },
    ...{ listSubscribed: [APP, 'device.deleted'], listReady: [], listRequested: [] },
  },
  webhooks: {
    ...{ list: [APP], find: ['webhook1'], findOf: [APP, 'webhook1'], findBoxKey: [] },
    ...{ countByState: [], iterateAll: [] },
  },
  outbox: { filterDue: [['webhook1']], countPending: ['webhook1', 10], readAgain: [ENTRIES] },
  webhookRequests: { list: ['webhook1'], find: ['webhook1', 'request1'] },
  clock: { now: [] },
  failedRecipients: {
    ...{ findPush: [APP, PUSH], iterateParts: [push(), SCOPE] },
    ...{ iteratePushes: [APP, { to: new Date() }] },
  },
  failures: { list: [{ app: APP, limit: 10 }] },
  pushSummaries: {
    ...{ findRedriven: [push()], listTokens: [push(), 10], sampleProviderErrors: [push(), 10] },
    ...{ summarize: [push()] },
  },
  pushTitles: { read: [[PUSH]] },
  pushesOfDevice: { list: [deviceQuery] },
  redrives: { find: [REDRIVE], listRunning: [10] },
};

const OF_THE_SERVER = ['missingIndexes', 'topology', 'diskSpace', 'version', 'ping'] as const;

/** Calls of the functions that never write. */
export const READ_CASES: Record<string, Call> = {
  ...Object.fromEntries(
    Object.entries(READS).flatMap(([part, functions]) =>
      Object.entries(functions).map(([name, args]) => [
        `${part}.${name}`,
        async (store: TestStore) => {
          const functionsOf: unknown = Reflect.get(store, part);
          const result = await Reflect.get(Object(functionsOf), name)(...args);
          if (Symbol.asyncIterator in Object(result)) for await (const _ of result);
        },
      ]),
    ),
  ),
  ...Object.fromEntries(OF_THE_SERVER.map((name) => [name, (store: TestStore) => store[name]()])),
  'imports.startCheck': async ({ imports }) => {
    const provider = { channel: 'fcm', address: 'address' } as const;
    const check = imports.startCheck();
    await check.importDevices(APP, [{ token: 'device1', platform: 'android', provider }]);
    await check.importSubscriptions(APP, []);
  },
  'pushSearch.search': async ({ pushSearch }) => {
    for (const filter of [
      {},
      { topic: 'news' },
      { outcome: 'failed' },
      { token: 'device1' },
    ] as const)
      await pushSearch.search({ app: APP, limit: 10, ...filter });
  },
  'suspensions.startRefreshing': (store) => store.suspensions.startRefreshing(() => undefined),
};

/** Functions without a case: they close the store. */
export const UNCALLED = ['clock.stop', 'suspensions.stop', 'knownWebhooks.stop', 'close'];
