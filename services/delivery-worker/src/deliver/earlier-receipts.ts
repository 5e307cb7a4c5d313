import type { Dispatcher } from '@carillon/presence/dispatcher';
import type { LeasedBatch } from './channel.ts';

/**
 * Reads the receipts that the gateways have reported to the worker of the previous claim.
 *
 * @returns undefined if Redis fails and the batch needs it anyway
 */
export async function findEarlierReceipts(
  { dispatcher }: { dispatcher: Pick<Dispatcher, 'readReplies'> },
  { work: { before: previousClaim, channel } }: LeasedBatch,
): Promise<{ position: number; ageMs: number }[] | undefined> {
  if (previousClaim === undefined) return [];
  const { claim, reply } = previousClaim;
  const results = await dispatcher.readReplies(reply, claim).catch(() => undefined);
  // Without Redis a provider gets the remaining recipients once more now, rather than later.
  if (results === undefined) return channel === 'mqtt' ? undefined : [];
  return [...results].flatMap(([position, { result, ageMs }]) =>
    result === 'acknowledged' ? [{ position, ageMs }] : [],
  );
}
