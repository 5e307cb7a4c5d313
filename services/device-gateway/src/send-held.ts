import { failpoint } from '@carillon/core/failpoint';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { Connection } from './connection.ts';
import type { HeldPush } from './expected-rows.ts';
import type { GatewayMetrics } from './metrics.ts';
import { isSendable, readPushStates, type StateStore } from './read-inbox.ts';

/** States that were read just now; undefined: the push does not exist any more. */
type States = ReadonlyMap<string, SendablePush | undefined>;

/**
 * Creates a function that sends pushes that a syncing connection holds, without their rows. Those that have waited for too
 * long need a read of their state, at whose end most of those that arrived meanwhile are still in time.
 *
 * The function adds all that it sends or skips to `seen`, and throws when MongoDB fails.
 */
export function createHeldSender(context: {
  store: StateStore & Pick<Store, 'clock'>;
  metrics: Pick<GatewayMetrics, 'countPublish'>;
}) {
  const { store, metrics } = context;

  function isInTime({ writeBy, expiresAt }: HeldPush): boolean {
    return performance.now() < writeBy && store.clock.now() < expiresAt;
  }

  /** Sends in order, up to the first push whose state must be read, or that has no room. */
  function send(connection: Connection, states: States, seen: Set<string>): void {
    for (const held of connection.listHeld()) {
      const { push } = held.ref;
      const wasRead = states.has(push);
      if (connection.freeSlots() === 0 || !(wasRead || isInTime(held))) return;
      seen.add(push);
      const state = states.get(push);
      if (wasRead && (state === undefined || !isSendable(store, state))) continue;
      // The worker writes its row now, and removes it if the receipt is recorded before.
      connection.send(held.packet, held.ref).mustRecordReceipt = true;
      failpoint('publish', connection.token);
      connection.markReplayed(push);
      metrics.countPublish('live');
    }
  }

  return async (connection: Connection, seen: Set<string>): Promise<void> => {
    await connection.waitUntil(() => connection.hasWindowSpace());
    const late = connection.listHeld().filter((held) => !isInTime(held));
    const ids = late.slice(0, connection.freeSlots()).map(({ ref }) => ref);
    const states =
      ids.length === 0 ? undefined : await readPushStates(store, connection.token, ids);
    send(connection, new Map(ids.map(({ push }) => [push, states?.pushes.get(push)])), seen);
  };
}
