import { hasBit } from '@carillon/core/batch';
import { failpoint } from '@carillon/core/failpoint';
import { fallbackBatchId, primaryBatchId } from '@carillon/core/ids';
import { failureCode, isFailure, OUTCOMES } from '@carillon/core/outcomes';
import type { Producers } from '@carillon/queue/producers';
import { createFallbackBatch } from '@carillon/store/fallback-batch';
import { rowId } from '@carillon/store/inbox';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from './app-settings.ts';
import type { BatchOutcomes } from './batch-outcomes.ts';
import type { LeasedBatch } from './channel.ts';

/** Ends of a recipient that was offered to a fallback, but for failures and acceptance. */
const ENDS_OFFERED: readonly number[] = [OUTCOMES.gone, OUTCOMES.superseded];

/** Resources that fallbacks use. */
interface FallbackResources {
  store: Pick<Store, 'devices' | 'batches' | 'receipts' | 'clock'>;
  getAppSettings: GetAppSettings;
}

/**
 * Creates the fallback batch of an MQTT batch before that is closed: recipients that haven't acknowledged and have an
 * FCM token, due after the app's delay. Their inbox rows stay, and stay responsible for them. It also has those whose
 * inbox was full, which have nothing else and are due at once. The id is the batch's with a suffix, so that a batch
 * delivered twice has one fallback.
 *
 * @param outcomes of the batch's recipients, by position
 * @returns those of full inboxes that are not in the fallback: they have failed
 */
export async function scheduleFallback(
  resources: FallbackResources & { producers: Pick<Producers, 'deliver'> },
  push: SendablePush,
  { id, work }: LeasedBatch,
  tokens: readonly string[],
  outcomes: Uint8Array,
): Promise<ReadonlySet<string>> {
  if (work.channel !== 'mqtt') return new Set();
  const { store, producers } = resources;
  const tokensWith = (code: number) => tokens.filter((_, position) => outcomes[position] === code);
  const offered = tokensWith(OUTCOMES.offered);
  const inInbox = tokensWith(OUTCOMES.inbox);
  const dueAtMs = inInbox.length === 0 ? undefined : await findDueMs(resources, push);
  const tried = dueAtMs === undefined ? offered : [...inInbox, ...offered];
  if (tried.length === 0) return new Set();
  const isOffered = new Set(offered);
  // Those that do not go by MQTT any more are due at once, whatever the delay.
  const isInTime = dueAtMs === undefined || dueAtMs < push.sendUntil.getTime();
  const found = await store.devices.filterWithFcmToken(push.app, tried);
  const reachable = found.filter(
    ({ token, way }) => isInTime || way === 'fcm' || isOffered.has(token),
  );
  if (reachable.length > 0) {
    const nowMs = store.clock.now();
    const times = { dueAtMs: dueAtMs ?? nowMs, nowMs };
    const of = { id, push: push._id, app: push.app, recipients: reachable };
    const batch = createFallbackBatch({ ...of, ...times, offered: isOffered });
    failpoint('fallback');
    await store.batches.insertIfAbsent([batch]);
    failpoint('fallback-inserted');
    // A later one is found when it is due.
    if (batch.work.at.getTime() <= nowMs) {
      const {
        _id: batchId,
        app,
        work: { n: recipients },
      } = batch;
      void producers.deliver({ app, id: batchId, channel: 'fcm', recipients });
    }
  }
  if (offered.length === 0) return new Set();
  // An earlier attempt may have inserted one without them.
  const stored = new Set(await store.batches.listTokens(fallbackBatchId(id)));
  return new Set(offered.filter((token) => !stored.has(token)));
}

/** Returns when recipients that have not acknowledged are due over FCM; undefined if the app does not use it. */
async function findDueMs(
  { getAppSettings }: FallbackResources,
  push: SendablePush,
): Promise<number | undefined> {
  const { fcm } = await getAppSettings(push.app);
  if (fcm === undefined) return undefined;
  const startMs = (push.dueAt ?? push.acceptedAt).getTime();
  return startMs + (fcm === 'first' ? 0 : fcm * 1_000);
}

/** Ends recipients of a fallback that have acknowledged since, or got a newer push of the collapse key. */
export async function skipDelivered(
  { inbox }: Pick<Store, 'inbox'>,
  push: SendablePush,
  { full = {} }: LeasedBatch['work'],
  batchOutcomes: BatchOutcomes,
): Promise<void> {
  const withRow = [...batchOutcomes.pending].filter((position) => !hasBit(full, position));
  if (withRow.length === 0) return;
  const tokenAt = (position: number) => batchOutcomes.tokens[position] ?? '';
  const stillPending = await inbox.filterPending(push, withRow.map(tokenAt));
  for (const position of withRow) {
    if (!stillPending.has(tokenAt(position)))
      batchOutcomes.recordOutcome(position, OUTCOMES.superseded);
  }
}

/**
 * Creates the function that writes the answers of a fallback's provider into the batch that the fallback is for: those
 * that it has not written yet. Called after each save, and before the fallback is closed, so that a worker that takes
 * over writes what this one has not. The row of a recipient that FCM has accepted ends if the app sends over FCM first, or
 * if the device does not go by MQTT any more: nobody would acknowledge it.
 */
export function createAnswerReport(
  { store, getAppSettings }: FallbackResources,
  push: SendablePush,
  { id, work: { full = {} } }: LeasedBatch,
  { tokens, outcomes }: Pick<BatchOutcomes, 'tokens' | 'outcomes'>,
): () => Promise<void> {
  const reported = new Set<number>();

  async function filterEnding(sent: readonly string[]): Promise<readonly string[]> {
    if (sent.length === 0) return sent;
    const { fcm } = await getAppSettings(push.app);
    if (fcm === 'first') return sent;
    const devices = sent.map((token) => ({ token, platform: 'android' as const }));
    const withWays = await store.devices.addWays(push.app, devices, true);
    return withWays.flatMap(({ token, way }) => (way === 'fcm' ? [token] : []));
  }

  return async () => {
    const sent: number[] = [];
    const refused: { token: string; code: number }[] = [];
    const answered: number[] = [];
    for (const [position, code] of outcomes.entries()) {
      if (reported.has(position)) continue;
      const token = tokens[position] ?? '';
      if (code === OUTCOMES.sent) sent.push(position);
      else if (hasBit(full, position) && ENDS_OFFERED.includes(code)) refused.push({ token, code });
      else if (hasBit(full, position) && isFailure(code))
        refused.push({ token, code: failureCode('inbox-full') });
      else continue;
      answered.push(position);
    }
    if (answered.length === 0) return;
    const tokenAt = (position: number) => tokens[position] ?? '';
    const primary = primaryBatchId(id);
    const { _id, collapse } = push;
    const answers = {
      app: push.app,
      push: _id,
      sent: sent.map(tokenAt),
      refused,
      done: [],
      rowIds: [],
    };
    await store.receipts.recordFallback(primary, answers);
    // Read after the answers are written: a device that becomes a former one meanwhile has its rows ended by its clearing.
    const withRow = sent.filter((position) => !hasBit(full, position));
    const done = await filterEnding(withRow.map(tokenAt));
    const rowIds = done.map((token) =>
      rowId({ token, push: _id, ...(collapse !== undefined && { collapse }) }),
    );
    if (done.length > 0)
      await store.receipts.recordFallback(primary, {
        ...{ app: push.app, push: _id, sent: [], refused: [] },
        ...{ done, rowIds },
      });
    // Only what is written: after a failure the next call writes it again.
    for (const position of answered) reported.add(position);
  };
}
