import type { RecipientFate } from '../../../packages/store/src/documents.ts';
import type { Store } from '../../../packages/store/src/store.ts';
import { type Patience, until } from '../until.ts';

/** An outcome, with the reason of a failure. */
export type Fate = Pick<RecipientFate, 'outcome' | 'reason'>;

/** Waits until a recipient's delivery has come to an end, and gives it. */
export async function untilEnded(
  store: Pick<Store, 'fates'>,
  push: { id: string },
  token: string,
  patience: Patience = {},
): Promise<Fate> {
  const ended = async () => {
    const fate = await store.fates.ofRecipient(push.id, token);
    return fate !== undefined && fate.outcome !== 'owed' && fate;
  };
  const what = `an end of ${push.id} at ${token}`;
  const { outcome, reason } = await until(ended, { timeoutMs: 30_000, what, ...patience });
  return reason === undefined ? { outcome } : { outcome, reason };
}

/** Waits until all recipients of a push have ended so. */
export async function untilCounts(
  store: Pick<Store, 'fates'>,
  push: { id: string },
  counts: Record<string, number>,
  patience: Patience = {},
): Promise<void> {
  const wanted = JSON.stringify(Object.entries(counts).sort());
  let seen = '';
  const isSo = async () => {
    const { outcomes = {} } = (await store.fates.ofPush(push.id)) ?? {};
    seen = JSON.stringify(Object.entries(outcomes).sort());
    return seen === wanted;
  };
  await until(isSo, { timeoutMs: 60_000, everyMs: 100, what: 'counts', ...patience }).catch(
    (cause) => {
      throw new Error(`push ${push.id} ended ${seen}, not ${wanted}`, { cause });
    },
  );
}
