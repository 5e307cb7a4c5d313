import type { RecipientStatus } from '../../../packages/store/src/documents.ts';
import type { TestStore } from '../open-store.ts';
import { type PollOptions, until } from '../until.ts';

/** An outcome, with the reason of a failure. */
export type FinalOutcome = Pick<RecipientStatus, 'outcome' | 'reason'>;

/** Waits until a recipient's delivery has ended. Returns its outcome. */
export async function untilFinal(
  store: Pick<TestStore, 'deliveryStatus'>,
  push: { id: string },
  token: string,
  pollOptions: PollOptions = {},
): Promise<FinalOutcome> {
  const isFinal = async () => {
    const status = await store.deliveryStatus.statusOfRecipient(push.id, token);
    return status !== undefined && status.outcome !== 'pending' && status;
  };
  const what = `an end of ${push.id} at ${token}`;
  const { outcome, reason } = await until(isFinal, { timeoutMs: 30_000, what, ...pollOptions });
  return reason === undefined ? { outcome } : { outcome, reason };
}

/** Waits until all recipients of a push have ended so. */
export async function untilOutcomeCounts(
  store: Pick<TestStore, 'deliveryStatus'>,
  push: { id: string },
  counts: Record<string, number>,
  pollOptions: PollOptions = {},
): Promise<void> {
  const expected = JSON.stringify(Object.entries(counts).sort());
  let actual = '';
  const hasExpectedCounts = async () => {
    const { outcomes = {} } = (await store.deliveryStatus.statusOfPush(push.id)) ?? {};
    actual = JSON.stringify(Object.entries(outcomes).sort());
    return actual === expected;
  };
  await until(hasExpectedCounts, {
    timeoutMs: 60_000,
    everyMs: 100,
    what: 'counts',
    ...pollOptions,
  }).catch((cause) => {
    throw new Error(`push ${push.id} ended ${actual}, not ${expected}`, { cause });
  });
}
