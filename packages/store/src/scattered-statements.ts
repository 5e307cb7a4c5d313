/** Statements of one function of the store that every shard executes, and how often it sends them. */
export interface ScatteredStatements {
  /** The occasion on which a process sends them, and the limit of their rate. */
  runs: string;
  /** Shapes, as `store/statement-target` describes them. */
  statements: readonly string[];
}

const TICK = 'each second, by one scheduler; the load does not change how often';
const TICK_WITH_WORK =
  'each second in which work is due, and at the due times of pushes, by one scheduler';
const CLEANING = 'every 5 s, by one scheduler; the load does not change how often';
const REQUEST = 'each request of a backend for it';
const CONSOLE = 'a page of the console, or a command of an operator';
const REPORT = 'each job of a webhook, of which each webhook has one at a time';

/**
 * All statements that do not name their shard key, by the function of the store that sends them. None of them is sent for each
 * push, batch or recipient but those that say so, and these share one statement for up to 200 of them.
 */
export const SCATTERED_STATEMENTS: Readonly<Record<string, ScatteredStatements>> = {
  'dueWork.exists': {
    runs: TICK,
    statements: [
      'aggregate batches computed(work.at), work.channel in, work.state =',
      'aggregate pushes (( | expiresAt <), computed(dueAt), state = | computed(fan.at), fan.done =, state = | computed(sendUntil), expiresAt <, state = | computed(work.at), state =, work.channel in, work.state = | ending exists)',
    ],
  },
  'pushes.openDue': {
    runs: TICK_WITH_WORK,
    statements: ['updateMany pushes ( | expiresAt <), computed(dueAt), state ='],
  },
  'pushes.listDueTraces': {
    runs: `${TICK_WITH_WORK}, while traces are recorded`,
    statements: ['find pushes computed(dueAt), state =, trace exists'],
  },
  'batchTable.findDue': {
    runs: TICK_WITH_WORK,
    statements: [
      'find batches computed(work.at), work.channel in, work.state =',
      'find pushes computed(work.at), state =, work.channel in, work.state =',
    ],
  },
  'fanOuts.findDue': {
    runs: TICK_WITH_WORK,
    statements: ['find pushes computed(fan.at), fan.done =, state ='],
  },
  'pushCompletion.findDue': {
    runs: TICK_WITH_WORK,
    statements: [
      'find pushes computed(sendUntil), expiresAt <, state =',
      'find pushes ending exists',
    ],
  },
  'outbox.filterDue': {
    runs: 'each second for each webhook that is on, by one scheduler',
    statements: [
      'find batches notify has, notify.at exists',
      'find devices notify has, notify.at exists',
      'find pushes notify has, notify.at exists',
    ],
  },
  'retention.abandonStale': {
    runs: CLEANING,
    statements: ['updateMany pushes computed(acceptedAt acceptingUntil), state ='],
  },
  'retention.purge': {
    runs: `${CLEANING}; the removal of inbox rows once for up to 100 pushes`,
    statements: ['deleteMany inbox push in', 'find pushes computed(purgeAt), purgeAt exists'],
  },
  'retention.removeOrphans': {
    runs: CLEANING,
    statements: ['aggregate batches push >'],
  },
  'retention.listOpenAfter': {
    runs: CLEANING,
    statements: ['find pushes (_id > | expiresAt >), expiresAt >, state ='],
  },
  'topics.recountInterrupted': {
    runs: CLEANING,
    statements: ['find subscriptions computed(since), pending exists'],
  },
  'deletedDevices.listUncleared': {
    runs: CLEANING,
    statements: ['find devices leaving ='],
  },
  'backlog.measure': {
    runs: 'every 5 s at most for each channel, when the metrics of a scheduler are read',
    statements: [
      'aggregate batches work.at <, work.channel =, work.state =',
      'aggregate batches work.at >, work.channel =, work.state =',
      'aggregate pushes state =, work.at <, work.channel =, work.state =',
      'aggregate pushes state =, work.at >, work.channel =, work.state =',
      'find batches work.at <, work.channel =, work.state =',
      'find pushes state =, work.at <, work.channel =, work.state =',
    ],
  },
  'batchTable.measureBacklog': {
    runs: CONSOLE,
    statements: [
      'find batches computed(work.at), work.channel in, work.state =',
      'find pushes computed(work.at), state =, work.channel in, work.state =',
    ],
  },
  'batchTable.retryNow': {
    runs: CONSOLE,
    statements: [
      'updateMany batches app =, work.channel =, work.state =, work.tries >',
      'updateMany pushes app =, work.channel =, work.state =, work.tries >',
    ],
  },
  'collapse.hasNewer': {
    runs: 'a query for up to 64 rows with a collapse key that gateways send',
    statements: ['find pushes (_id >, app =, collapse =, state in)'],
  },
  'collapse.findNewerRecipients': {
    runs: 'each claim and each round of a batch whose push has a collapse key',
    statements: ['find pushes _id >, app =, collapse =, state in'],
  },
  'collapse.filterSuperseded': {
    runs: 'each part of a push with a collapse key that a re-drive sends again',
    statements: ['find pushes _id >, app =, collapse =, state in'],
  },
  'deletedDevices.filterDeleted': {
    runs: 'after inbox rows are written; up to 200 batches of a worker share one, of which 4 are in flight',
    statements: ['find devices deletedAt >'],
  },
  'pushCompletion.completeIfDone': {
    runs: 'a check of up to 200 pushes with inbox rows, 2 s after their last receipt; the removal of rows for each push that expires or is deleted',
    statements: ['deleteMany inbox push =', 'distinct inbox push in', 'find inbox push ='],
  },
  'deletedDevices.clearLeftovers': {
    runs: 'each device that is deleted',
    statements: ['find subscriptions token ='],
  },
  'subscriptions.listTopics': {
    runs: 'each change of the topics of a device, and each request for its topics',
    statements: ['find subscriptions token ='],
  },
  'topics.pages': { runs: REQUEST, statements: ['find topics _id <>'] },
  'topics.listPage': { runs: CONSOLE, statements: ['find topics _id <>'] },
  'devices.register': {
    runs: 'a device with the provider address of one that an earlier release has registered',
    statements: ['find devices app =, provider.address ='],
  },
  'devices.setAddress': {
    runs: 'a device with the provider address of one that an earlier release has registered',
    statements: ['find devices app =, provider.address ='],
  },
  'imports.importDevices': {
    runs: 'a page of an import with a device that exists already',
    statements: ['find devices app =, provider.address in'],
  },
  'pushes.findByIdempotencyKey': {
    runs: 'each request with a new idempotency key: an earlier release may have the key. It goes with the next release',
    statements: ['find pushes app =, idempotency.key ='],
  },
  'pushes.insert': {
    runs: 'a push whose idempotency key an earlier release has inserted, or an expired one',
    statements: ['find pushes app =, idempotency.key ='],
  },
  'pending.findDevices': { runs: REQUEST, statements: ['find inbox push ='] },
  'deviceOverviews.find': {
    runs: 'each request of a backend for a device: one statement over all collections, which ends after 1 s and is then left out for 5 s',
    statements: [
      'aggregate pushes app =, state in, work.at <, work.channel in, work.state =, work.tokens matches',
      'aggregate batches app =, from <, to >, work.at <, work.state in, work.tokens matches',
      'aggregate subscriptions token =',
    ],
  },
  'pushOutcomes.list': { runs: REQUEST, statements: ['find pushes _id <>, app ='] },
  'exportPages.streamDevices': {
    runs: 'each page of 1,000 of an export',
    statements: ['find devices _id >, app =, deletedAt exists'],
  },
  'exportPages.streamPushes': {
    runs: 'each page of 1,000 of an export',
    statements: ['find pushes _id >, app ='],
  },
  'erasure.eraseFromPushes': {
    runs: 'each 1,000 pushes of an app, for a device that is erased',
    statements: ['find pushes _id >, app ='],
  },
  'outbox.claim': {
    runs: REPORT,
    statements: [
      'find batches notify has, notify.at exists',
      'find devices notify has, notify.at exists',
      'find pushes notify has, notify.at exists',
    ],
  },
  'webhooks.remove': {
    runs: 'each 1,000 devices with unreported events, when a webhook is removed',
    statements: ['find devices notify has, notify.at exists'],
  },
  'outbox.countPending': {
    runs: 'when the metrics of a scheduler are read, and a page of the console',
    statements: [
      'aggregate batches notify has, notify.at exists',
      'aggregate devices notify has, notify.at exists',
      'aggregate pushes notify has, notify.at exists',
    ],
  },
  'outbox.replay': {
    runs: 'each call of a replay, which marks up to 500 pushes',
    statements: ['find pushes _id <>, app =, state in'],
  },
  'pushes.list': { runs: CONSOLE, statements: ['find pushes _id <, app ='] },
  'pushSearch.search': { runs: CONSOLE, statements: ['find pushes _id <>, app ='] },
  'pushesOfDevice.search': { runs: CONSOLE, statements: ['aggregate pushes _id <, app ='] },
  'deliveryStatus.findPushesOfDevice': {
    runs: CONSOLE,
    statements: ['aggregate pushes _id <, app ='],
  },
  'devices.list': { runs: CONSOLE, statements: ['find devices _id >, app =, deletedAt exists'] },
  'devices.findByAddress': {
    runs: CONSOLE,
    statements: ['find devices app in, provider.address ='],
  },
  'failures.list': {
    runs: CONSOLE,
    statements: [
      'find batches app =, work.channel in, work.failedAt >',
      'find pushes app =, work.channel in, work.failedAt >',
    ],
  },
  'failures.iteratePushes': {
    runs: 'each 200 pushes that a re-drive sends again',
    statements: [
      'find batches _id >, app =, work.failedAt <>',
      'find pushes _id >, app =, work.failedAt <>',
    ],
  },
  'inbox.hasPending': { runs: 'no service calls it', statements: ['find inbox push ='] },
  'inbox.listPendingTokens': { runs: 'no service calls it', statements: ['find inbox push ='] },
};
