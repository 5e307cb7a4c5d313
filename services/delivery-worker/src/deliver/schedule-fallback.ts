import { joinTokens } from '@carillon/core/batch';
import { failpoint } from '@carillon/core/failpoint';
import { fallbackBatchId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from './app-settings.ts';
import type { LeasedBatch } from './channel.ts';

/**
 * Creates the fallback batch of an MQTT batch before that is closed: recipients that haven't acknowledged and have an
 * FCM token, due after the app's delay. Their inbox rows stay, and stay responsible for them. The id is the batch's
 * with a suffix, so that a batch delivered twice has one fallback.
 *
 * @param outcomes of the batch's recipients, by position
 */
export async function scheduleFallback(
  resources: {
    store: Pick<Store, 'devices' | 'batches' | 'clock'>;
    getAppSettings: GetAppSettings;
  },
  push: SendablePush,
  { id, work }: LeasedBatch,
  tokens: readonly string[],
  outcomes: Uint8Array,
): Promise<void> {
  const { store, getAppSettings } = resources;
  if (work.channel !== 'mqtt' || !outcomes.includes(OUTCOMES.inbox)) return;
  const { fcm } = await getAppSettings(push.app);
  if (fcm === undefined) return;
  const delayMs = fcm === 'first' ? 0 : fcm * 1_000;
  const dueAtMs = (push.dueAt ?? push.acceptedAt).getTime() + delayMs;
  if (dueAtMs >= push.sendUntil.getTime()) return;
  const unacknowledged = tokens.filter((_, position) => outcomes[position] === OUTCOMES.inbox);
  const reachable = (await store.devices.filterWithFcmToken(push.app, unacknowledged)).sort();
  if (reachable.length === 0) return;
  failpoint('fallback');
  await store.batches.insertIfAbsent([
    {
      _id: fallbackBatchId(id),
      push: push._id,
      app: push.app,
      from: reachable[0] ?? '',
      to: reachable.at(-1) ?? '',
      work: {
        state: 'ready',
        channel: 'fcm',
        fallback: true,
        at: new Date(Math.max(dueAtMs, store.clock.now())),
        tries: 0,
        n: reachable.length,
        tokens: joinTokens(reachable),
      },
    },
  ]);
  failpoint('fallback-inserted');
}
