import { hasBit } from '@carillon/core/batch';
import { failpoint } from '@carillon/core/failpoint';
import { fallbackBatchId } from '@carillon/core/ids';
import { isFailure, OUTCOMES } from '@carillon/core/outcomes';
import type { Producers } from '@carillon/queue/producers';
import { createFallbackBatch } from '@carillon/store/fallback-batch';
import { rowId } from '@carillon/store/inbox';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from './app-settings.ts';
import type { BatchOutcomes } from './batch-outcomes.ts';
import type { LeasedBatch } from './channel.ts';

/** Resources that fallbacks use. */
interface FallbackResources {
  store: Pick<Store, 'devices' | 'batches' | 'receipts' | 'clock'>;
  getAppSettings: GetAppSettings;
}

/**
 * Creates the fallback batch of an MQTT batch before that is closed: recipients that haven't acknowledged and have an
 * FCM token, due after the app's delay. Their inbox rows stay, and stay responsible for them. It also has those whose
 * inbox was full, which have nothing else. The id is the batch's with a suffix, so that a batch delivered twice has one
 * fallback.
 *
 * @param outcomes of the batch's recipients, by position
 */
export async function scheduleFallback(
  {
    store,
    producers,
    getAppSettings,
  }: FallbackResources & { producers: Pick<Producers, 'deliver'> },
  push: SendablePush,
  { id, work }: LeasedBatch,
  tokens: readonly string[],
  outcomes: Uint8Array,
): Promise<void> {
  if (work.channel !== 'mqtt') return;
  const tokensWith = (code: number) => tokens.filter((_, position) => outcomes[position] === code);
  const offered = tokensWith(OUTCOMES.offered);
  const { fcm } = outcomes.includes(OUTCOMES.inbox)
    ? await getAppSettings(push.app)
    : { fcm: undefined };
  const delayMs = fcm === undefined || fcm === 'first' ? 0 : fcm * 1_000;
  const dueAtMs = (push.dueAt ?? push.acceptedAt).getTime() + delayMs;
  const isInTime = fcm !== undefined && dueAtMs < push.sendUntil.getTime();
  const unacknowledged = isInTime ? tokensWith(OUTCOMES.inbox) : [];
  const tried = [...unacknowledged, ...offered];
  if (tried.length === 0) return;
  const reachable = (await store.devices.filterWithFcmToken(push.app, tried)).sort();
  if (reachable.length === 0) return;
  const isOffered = new Set(offered);
  const full = reachable.flatMap((token, position) => (isOffered.has(token) ? [position] : []));
  // A device whose inbox is full waits for nothing.
  const waitMs = full.length === reachable.length ? 0 : dueAtMs - store.clock.now();
  failpoint('fallback');
  const at = new Date(store.clock.now() + Math.max(waitMs, 0));
  const { _id, app } = push;
  await store.batches.insertIfAbsent([
    createFallbackBatch({ id, push: _id, app, tokens: reachable, full, at }),
  ]);
  failpoint('fallback-inserted');
  // A later one is found when it is due.
  if (waitMs <= 0) void producers.deliver(fallbackBatchId(id), 'fcm');
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
    const positions = [...outcomes.keys()].filter((position) => {
      const code = outcomes[position] ?? OUTCOMES.pending;
      const isRefused = hasBit(full, position) && (isFailure(code) || code === OUTCOMES.gone);
      return !reported.has(position) && (code === OUTCOMES.sent || isRefused);
    });
    if (positions.length === 0) return;
    const tokensOf = (isSent: boolean) =>
      positions.flatMap((position) =>
        (outcomes[position] === OUTCOMES.sent) === isSent ? [tokens[position] ?? ''] : [],
      );
    const sent = tokensOf(true);
    const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
    const ending = await filterEnding(sent);
    const rowIds = ending.map((token) => rowId({ token, push: push._id, ...collapse }));
    // The batch that it is for has its id without the suffix.
    const primary = id.slice(0, -1);
    const answers = { push: push._id, sent, refused: tokensOf(false), rowIds };
    await store.receipts.recordFallback(primary, answers);
    for (const position of positions) reported.add(position);
  };
}
