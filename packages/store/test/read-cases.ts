import { Readable } from 'node:stream';
import { FIRST_RECIPIENT } from '../../reports/src/recipients.ts';
import { ACCOUNT, APP, type Call, NEWER_PUSH, PUSH, push, TOKENS } from './document-fixtures.ts';

async function drain(documents: AsyncIterable<object>): Promise<void> {
  for await (const _ of documents);
}

/** Functions that never write. */
export const READ_CASES: Record<string, Call> = {
  'accounts.find': (store) => store.accounts.find(ACCOUNT),
  'accounts.list': (store) => store.accounts.list('', 10),
  'apps.list': (store) => store.apps.list(ACCOUNT, '', 10),
  'apps.find': (store) => store.apps.find(APP),
  'apps.findByBundleIdOrHost': (store) => store.apps.findByBundleIdOrHost('example.org'),
  'keys.owner': (store) => store.keys.owner('digest'),
  'keys.owners': (store) => store.keys.owners(['digest']),
  'keys.list': (store) => store.keys.list(APP),
  'credentials.has': (store) => store.credentials.has(APP, 'apns'),
  'credentials.listForChannel': (store) => store.credentials.listForChannel(APP, 'apns'),
  'credentials.webPushPublicKey': (store) => store.credentials.webPushPublicKey(APP),
  'credentials.find': (store) => store.credentials.find({ app: APP, channel: 'fcm' }),
  'credentials.iterateAll': async (store) => {
    for await (const _ of store.credentials.iterateAll()) break;
  },
  'credentials.listRefused': (store) => store.credentials.listRefused(10),
  'credentials.listUnaccepted': (store) => store.credentials.listUnaccepted(10),
  'credentials.list': (store) => store.credentials.list(APP),
  'operators.find': (store) => store.operators.find(ACCOUNT),
  'operators.findByName': (store) => store.operators.findByName('Ann'),
  'operators.findByOpenId': (store) => store.operators.findByOpenId('https://id.example ann'),
  'operators.exist': (store) => store.operators.exist(),
  'operators.list': (store) => store.operators.list('', 10),
  'operators.countOwners': (store) => store.operators.countOwners(),
  'sessions.find': (store) => store.sessions.find(Buffer.alloc(32)),
  'invites.find': (store) => store.invites.find(Buffer.alloc(32)),
  'invites.list': (store) => store.invites.list('', 10),
  'audit.list': (store) => store.audit.list({ accounts: 'all', limit: 10 }),
  'devices.findRecipient': (store) => store.devices.findRecipient(APP, 'device1'),
  'devices.findRecipients': (store) => store.devices.findRecipients(APP, TOKENS),
  'devices.findForConnect': (store) => store.devices.findForConnect('device1'),
  'devices.find': (store) => store.devices.find('device1'),
  'devices.findLastSeen': (store) => store.devices.findLastSeen(APP, TOKENS),
  'devices.findReachable': (store) => store.devices.findReachable(APP, TOKENS),
  'devices.filterWithFcmToken': (store) => store.devices.filterWithFcmToken(APP, TOKENS),
  'devices.list': (store) => store.devices.list(APP, '', 10),
  'deviceOverviews.find': (store) => store.deviceOverviews.find(APP, 'device1'),
  'deletedDevices.listUncleared': (store) => store.deletedDevices.listUncleared(10),
  'deletedDevices.filterDeleted': (store) => store.deletedDevices.filterDeleted(new Date(), TOKENS),
  'subscriptions.listTopics': (store) => store.subscriptions.listTopics('device1'),
  'subscriptions.listPage': (store) => store.subscriptions.listPage(APP, 'news', '', 10),
  'subscriptions.stream': async (store) => {
    for await (const _ of store.subscriptions.stream(APP, 'news', '')) break;
  },
  'topics.findCounters': (store) => store.topics.findCounters(APP, ['news']),
  'topics.pages': (store) => Readable.from(store.topics.pages(APP)).toArray(),
  'pageCursors.find': (store) => store.pageCursors.find(APP, 'news', 2),
  'pushes.readForSending': (store) => store.pushes.readForSending([PUSH]),
  'pushes.listDueTraces': (store) => store.pushes.listDueTraces(10),
  'pushes.listTraces': (store) => store.pushes.listTraces([PUSH], 10),
  'pushes.isSendable': (store) => store.pushes.isSendable(push()),
  'pushes.find': (store) => store.pushes.find(APP, PUSH),
  'pushes.inspect': (store) => store.pushes.inspect(PUSH),
  'pushes.list': (store) => store.pushes.list(APP, NEWER_PUSH, 10),
  'pushes.payloads': (store) => store.pushes.payloads(APP, [PUSH]),
  'fanOuts.findDue': (store) => store.fanOuts.findDue(10),
  'batchTable.findDue': (store) => store.batchTable.findDue(10),
  'backlog.measure': (store) => store.backlog.measure('mqtt', 10),
  'batchTable.measureBacklog': (store) => store.batchTable.measureBacklog(10),
  'deliveryStatus.findPushesOfDevice': (store) =>
    store.deliveryStatus.findPushesOfDevice({
      app: APP,
      token: 'device1',
      before: 'g',
      scanLimit: 10,
      limit: 10,
    }),
  'deliveryStatus.statusOfPush': (store) => store.deliveryStatus.statusOfPush(PUSH),
  'deliveryStatus.listProviderErrors': (store) => store.deliveryStatus.listProviderErrors(PUSH, 10),
  'deliveryStatus.statusOfRecipient': (store) =>
    store.deliveryStatus.statusOfRecipient(PUSH, 'device1'),
  'pushOutcomes.find': (store) => store.pushOutcomes.find(APP, PUSH),
  'pushOutcomes.list': (store) =>
    store.pushOutcomes.list({ app: APP, from: '', before: NEWER_PUSH, limit: 10 }),
  'pushOutcomes.summarize': (store) => store.pushOutcomes.summarize(push()),
  'recipients.readPage': (store) => store.recipients.readPage(push(), FIRST_RECIPIENT, 10),
  'recipients.findPosition': (store) => store.recipients.findPosition(push(), 'device1'),
  'recipients.findOne': (store) => store.recipients.findOne(push(), 'device1'),
  'exportPages.streamDevices': (store) => drain(store.exportPages.streamDevices(APP, '', 10)),
  'exportPages.streamSubscriptions': (store) =>
    drain(store.exportPages.streamSubscriptions(APP, '', 10)),
  'exportPages.streamPushes': (store) => drain(store.exportPages.streamPushes(APP, '', 10)),
  'pending.findDevices': (store) => store.pending.findDevices(push(), 10),
  'pushCompletion.computePurgeAt': (store) => store.pushCompletion.computePurgeAt(1),
  'pushCompletion.findDue': (store) => store.pushCompletion.findDue(10),
  'inbox.listRows': (store) => store.inbox.listRows('device1'),
  'inbox.listRowsByToken': (store) => store.inbox.listRowsByToken(TOKENS),
  'inbox.filterPending': (store) => store.inbox.filterPending(push(), TOKENS),
  'inbox.listPendingTokens': (store) => store.inbox.listPendingTokens(PUSH, 10),
  'inbox.hasPending': (store) => store.inbox.hasPending(PUSH),
  'inboxQuota.filterFull': (store) => store.inboxQuota.filterFull(TOKENS),
  'collapse.hasNewer': (store) =>
    store.collapse.hasNewer({ _id: PUSH, app: APP, collapse: 'c' }, 'device1'),
  'collapse.findNewerRecipients': (store) =>
    store.collapse.findNewerRecipients({ _id: PUSH, app: APP, collapse: 'c' }, 'a', 'z'),
  'retention.listOpenAfter': (store) => store.retention.listOpenAfter(undefined, 10),
  'suspensions.has': (store) => store.suspensions.has(APP),
  'suspensions.filter': (store) => store.suspensions.filter(),
  'suspensions.refresh': (store) => store.suspensions.refresh(),
  'suspensions.startRefreshing': (store) => {
    store.suspensions.startRefreshing(() => undefined);
    return store.ping();
  },
  'pushProgress.findAccounts': (store) => store.pushProgress.findAccounts([PUSH]),
  'pushProgress.readMarks': (store) => store.pushProgress.readMarks([PUSH]),
  'proxyWarnings.listRecent': (store) => store.proxyWarnings.listRecent(1_000),
  'schema.readVersion': (store) => store.schema.readVersion(),
  'schema.assertUsable': (store) => store.schema.assertUsable(),
  'schema.status': (store) => store.schema.status(),
  'knownWebhooks.refresh': (store) => store.knownWebhooks.refresh(),
  'knownWebhooks.refreshIfStale': (store) => store.knownWebhooks.refreshIfStale(),
  'knownWebhooks.startRefreshing': (store) => store.knownWebhooks.startRefreshing(() => undefined),
  'knownWebhooks.pushEntries': (store) => store.knownWebhooks.pushEntries(APP),
  'knownWebhooks.listSubscribed': (store) =>
    store.knownWebhooks.listSubscribed(APP, 'device.deleted'),
  'knownWebhooks.listReady': (store) => store.knownWebhooks.listReady(),
  'knownWebhooks.listTested': (store) => store.knownWebhooks.listTested(),
  'webhooks.list': (store) => store.webhooks.list(APP),
  'webhooks.find': (store) => store.webhooks.find('webhook1'),
  'webhooks.findOf': (store) => store.webhooks.findOf(APP, 'webhook1'),
  'webhooks.findBoxKey': (store) => store.webhooks.findBoxKey(),
  'webhooks.countByState': (store) => store.webhooks.countByState(),
  'webhooks.iterateAll': async (store) => {
    for await (const _ of store.webhooks.iterateAll()) break;
  },
  'outbox.filterDue': (store) => store.outbox.filterDue(['webhook1']),
  'outbox.countPending': (store) => store.outbox.countPending('webhook1', 10),
  'clock.now': (store) => store.clock.now(),
  missingIndexes: (store) => store.missingIndexes(),
  topology: (store) => store.topology(),
  diskSpace: (store) => store.diskSpace(),
  version: (store) => store.version(),
  ping: (store) => store.ping(),
};

/** Functions without a case: they close the store. */
export const UNCALLED = ['clock.stop', 'suspensions.stop', 'knownWebhooks.stop', 'close'];
