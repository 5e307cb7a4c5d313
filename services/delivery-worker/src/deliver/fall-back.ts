import { fallbackId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { joinTokens } from '@carillon/core/work';
import type { BatchDocument } from '@carillon/store/documents';
import type { SendingView } from '@carillon/store/pushes';
import type { HeldWork } from './leases.ts';

/** What arranging a fallback needs. */
export interface FallBackDeps {
  /** Milliseconds after which an app's Android devices are tried over FCM; undefined: never. */
  fallBackAfterMs(app: string): Promise<number | undefined>;
  /** The devices among these that FCM reaches too. */
  withFcmToken(app: string, tokens: readonly string[]): Promise<string[]>;
  insertBatches(batches: readonly BatchDocument[]): Promise<void>;
  now(): number;
}

/**
 * Before work over MQTT closes: those of its recipients that haven't acknowledged and have an FCM token become a
 * batch of that channel, due after the app's delay. Their inbox rows stay, and stay answerable for them; the batch
 * has the work's own id with a mark, so that work done twice makes it once.
 *
 * @param outcomes of the work's recipients, by position
 */
export async function arrangeFallBack(
  deps: FallBackDeps,
  push: SendingView,
  { id, work }: HeldWork,
  tokens: readonly string[],
  outcomes: Uint8Array,
): Promise<void> {
  if (work.channel !== 'mqtt' || !outcomes.includes(OUTCOMES.inbox)) return;
  const afterMs = await deps.fallBackAfterMs(push.app);
  if (afterMs === undefined) return;
  const at = (push.dueAt ?? push.acceptedAt).getTime() + afterMs;
  if (at >= push.sendUntil.getTime()) return;
  const silent = tokens.filter((_, position) => outcomes[position] === OUTCOMES.inbox);
  const reached = (await deps.withFcmToken(push.app, silent)).sort();
  if (reached.length === 0) return;
  await deps.insertBatches([
    {
      _id: fallbackId(id),
      push: push._id,
      app: push.app,
      from: reached[0] ?? '',
      to: reached.at(-1) ?? '',
      work: {
        state: 'ready',
        channel: 'fcm',
        fallback: true,
        at: new Date(Math.max(at, deps.now())),
        tries: 0,
        n: reached.length,
        tokens: joinTokens(reached),
      },
    },
  ]);
}
