import type { JoinedContents } from '@carillon/queue/joined-push';
import type { ClaimedBatch } from '@carillon/store/batch-table';
import type { PushOptions } from '@carillon/store/documents';
import { mayTakeInitially } from '@carillon/store/initial-claim';
import type { Store } from '@carillon/store/store';
import type { LeasedBatch } from './channel.ts';
import type { Leases } from './send-gate.ts';

interface Resources {
  store: Pick<Store, 'clock' | 'suspensions' | 'batchTable'>;
  leases: Leases;
}

/**
 * Takes a push that joined the open job under the claim that it was inserted with, without a read or a write. Undefined: it
 * came too late, or its account is suspended, and it must be claimed.
 */
export function takeJoined(
  { store, leases }: Resources,
  id: string,
  contents: JoinedContents,
): LeasedBatch | undefined {
  const ageMs = store.clock.now() - contents.acceptedAt;
  if (!mayTakeInitially(ageMs) || store.suspensions.has(contents.app)) return undefined;
  return leases.takeInitialClaim(toClaimedBatch(id, contents), performance.now() - ageMs);
}

/** Releases the claim of a push that this process doesn't deliver, so that another one does at once. */
export async function releaseJoined(
  { store }: Pick<Resources, 'store'>,
  id: string,
  { claim }: JoinedContents,
): Promise<void> {
  await store.batchTable.releaseClaim({ id, claim }, { delayMs: 0 });
}

function toClaimedBatch(id: string, contents: JoinedContents): ClaimedBatch {
  const { claim, app, token, data, options, collapse, trace, notify } = contents;
  const acceptedAt = new Date(contents.acceptedAt);
  const times = {
    acceptedAt,
    expiresAt: new Date(contents.expiresAt),
    sendUntil: new Date(contents.sendUntil),
  };
  return {
    ...{ id, push: id, claim },
    work: { state: 'ready', channel: 'mqtt', at: acceptedAt, claim, tries: 1, n: 1, tokens: token },
    ...(notify && { notify }),
    sendable: {
      ...{ _id: id, app, state: 'open', ...times, data },
      ...(options !== undefined && { options: options as PushOptions }),
      ...(collapse !== undefined && { collapse }),
      ...(trace !== undefined && { trace }),
    },
  };
}
