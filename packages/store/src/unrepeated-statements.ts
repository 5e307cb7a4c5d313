import { BATCH_LEASE_MS } from '@carillon/core/batch';

/** Recovery of the statements of one function of the store after a cut connection. */
export interface UnrepeatedStatements {
  /** The part that sends the statement again, or what replaces it. */
  repeatedBy: string;
  /** The reason why a second one, or half of the first, does no harm. */
  safeBecause: string;
}

const LEASE = `${BATCH_LEASE_MS / 1_000} s`;
const TICK = 'the next tick of the scheduler, which finds the same documents';
const CALLER = 'the client, which has received an error';

/**
 * The functions of the store that change or remove many documents with one statement. The driver repeats statements for single
 * documents once (`retryWrites`), and never these: where the connection is cut in the middle of one, or the primary steps down,
 * none, some or all of the documents are changed, and the function fails.
 */
export const UNREPEATED_STATEMENTS: Readonly<Record<string, UnrepeatedStatements>> = {
  'batchTable.claim': {
    repeatedBy: 'the reconciler, which adds the job again when the lease of the claim ends',
    safeBecause: `no worker has the claim, so nothing is sent under it; the batch waits ${LEASE}`,
  },
  'batchTable.renew': {
    repeatedBy: 'the next renewal; a lease lasts for three of them',
    safeBecause:
      'a lease that is renewed twice ends later; one that is not stops its worker from sending',
  },
  'batchTable.settle': {
    repeatedBy:
      'the function itself: one statement for each batch, which the driver repeats; then it reads what is stored',
    safeBecause: 'a batch that is closed under its claim is not closed again',
  },
  'batchTable.releaseClaim': {
    repeatedBy: 'not repeated: the batch is due when the lease of the claim ends',
    safeBecause: `a batch that is released is not released again; one that is not waits ${LEASE} at most`,
  },
  'batchTable.retryNow': {
    repeatedBy: 'the operator, who has received an error; otherwise each batch at its own time',
    safeBecause: 'a batch becomes due earlier, at most twice',
  },
  'batches.removeAll': {
    repeatedBy: 'the scheduler: with the abandoned push, after an hour',
    safeBecause: 'batches of an abandoned push are waiting, and nothing releases them',
  },
  'batches.release': {
    repeatedBy:
      'the next step of the fan-out, when the claim on it ends; the reconciler adds jobs for those that are ready',
    safeBecause: 'the step counts what is ready before it releases more',
  },
  'pushCompletion.completeIfDone': {
    repeatedBy: 'the scheduler, which finds open pushes and those whose end has begun',
    safeBecause:
      'each statement has a condition on the state that it changes; the first outcomes and counts stay',
  },
  'receipts.record': {
    repeatedBy: 'the gateway, until MongoDB has stored it',
    safeBecause:
      'a bit that is set stays set, the first time of a receipt stays, a row that is gone is gone',
  },
  'receipts.recordGone': {
    repeatedBy: 'the scheduler: the device is still marked as leaving',
    safeBecause: 'as a receipt',
  },
  'inbox.remove': {
    repeatedBy:
      'not repeated: the row stays until the device has received the push once more, or until the push ends',
    safeBecause: 'the outcome is in the batch already, and a receipt no longer changes it',
  },
  'pushes.openDue': { repeatedBy: TICK, safeBecause: 'an open push is not opened again' },
  'retention.abandonStale': {
    repeatedBy: TICK,
    safeBecause: 'an abandoned push is not abandoned again',
  },
  'retention.purge': {
    repeatedBy: TICK,
    safeBecause: 'rows and batches go before their push, which is found until it is gone',
  },
  'retention.removeOrphans': {
    repeatedBy: 'the next round over all batches',
    safeBecause: 'a batch that is removed is not found again',
  },
  'outbox.claim': {
    repeatedBy: 'the next tick, when the lease of the claim has ended',
    safeBecause: 'no worker has the claim, so nothing is reported under it',
  },
  'outbox.record': {
    repeatedBy: 'the job that claims the documents when the lease has ended',
    safeBecause: 'the receiver gets an event again, with the same id',
  },
  'outbox.release': {
    repeatedBy: 'the end of the lease',
    safeBecause: 'the documents wait for it instead of their delay',
  },
  'outbox.replay': {
    repeatedBy: CALLER,
    safeBecause: 'a document that is marked again is reported from the beginning',
  },
  'webhooks.remove': {
    repeatedBy: CALLER,
    safeBecause: 'the webhook goes last, and until then it is off',
  },
  'devices.touch': {
    repeatedBy: 'the next activity of each device',
    safeBecause: 'the latest time stays',
  },
  'keys.markUsed': {
    repeatedBy: 'the next use of each key',
    safeBecause: 'the latest time stays',
  },
  'devices.register': {
    repeatedBy: CALLER,
    safeBecause:
      'the device that had the address is deleted before the new one is written, or is still there',
  },
  'devices.setAddress': {
    repeatedBy: CALLER,
    safeBecause: 'the devices that had the address are listed with it, and deleted then',
  },
  'imports.importSubscriptions': {
    repeatedBy: 'the scheduler, which recounts the topics of subscriptions that keep their mark',
    safeBecause: 'a subscription whose mark is cleared has no mark to clear',
  },
  'imports.importDevices': {
    repeatedBy: 'the import, which is repeated as a whole',
    safeBecause:
      'it is sent only where two imports bring the same address at once; the next registration of it deletes the others',
  },
  'deletedDevices.clearLeftovers': {
    repeatedBy: 'the scheduler: the device is still marked as leaving',
    safeBecause: 'each step removes what still exists',
  },
  'subscriptions.subscribe': {
    repeatedBy: CALLER,
    safeBecause: 'a mark that stays makes the scheduler count the topic again',
  },
  'subscriptions.unsubscribe': {
    repeatedBy: CALLER,
    safeBecause: 'a mark that stays makes the scheduler count the topic again',
  },
  'topics.recountInterrupted': {
    repeatedBy: TICK,
    safeBecause: 'the counts are written only if nothing has changed meanwhile',
  },
  'sessions.endAll': {
    repeatedBy: CALLER,
    safeBecause: 'a session that has ended is not found',
  },
  'invites.endMadeBy': {
    repeatedBy: 'no one: a link of an operator without access is not found',
    safeBecause: 'a link that has ended is not found',
  },
  'invites.endAll': {
    repeatedBy: CALLER,
    safeBecause: 'a link that has ended is not found',
  },
  'invites.removeSetUps': {
    repeatedBy: CALLER,
    safeBecause: 'a link that is gone is not found; a second operator is refused by a unique index',
  },
};
