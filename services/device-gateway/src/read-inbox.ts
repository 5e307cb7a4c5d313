import { createBatcher } from '@carillon/core/batcher';
import { failpoint } from '@carillon/core/failpoint';
import type { Tracer } from '@carillon/core/tracing';
import type { Producers } from '@carillon/queue/producers';
import type { InboxDocument } from '@carillon/store/documents';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { Connection } from './connection.ts';
import type { DeliveryRef } from './delivery-ref.ts';
import type { GatewayMetrics } from './metrics.ts';
import { encodePublish } from './publish-packet.ts';
import type { Receipts } from './receipts.ts';
import { createReplaySpans } from './replay-spans.ts';

/** Maximum age of a push's state when the push is sent: nothing is sent a second after a deletion (guarantee G8). */
const MAX_STATE_AGE_MS = 900;
/** Maximum reads of the state until one is fast enough. */
const MAX_STATE_READS = 3;
const INBOXES_PER_QUERY = 64;

type InboxStore = Pick<Store, 'inbox' | 'pushes' | 'collapse' | 'suspensions'>;
type StateStore = Omit<InboxStore, 'inbox'>;

/** State of pushes right before they are sent. */
interface PushStates {
  pushes: Map<string, SendablePush>;
  /** Ids of pushes with a newer push of the collapse key for this device. */
  superseded: Set<string>;
}

export type InboxReader = ReturnType<typeof createInboxReader>;

/** Reads inboxes and sends their pushes. */
export function createInboxReader(context: {
  store: InboxStore;
  producers: Pick<Producers, 'checkCompletion'>;
  receipts: Receipts;
  metrics: GatewayMetrics;
  tracer?: Tracer | undefined;
}) {
  const { store, producers, receipts, metrics, tracer } = context;
  const startSpan = tracer && createReplaySpans(tracer);

  // When many devices reconnect at once, a query reads dozens of inboxes.
  const listRows = createBatcher<string, InboxDocument[]>(
    'read-inbox',
    async (tokens) => {
      const rows = await store.inbox.listRowsByToken(tokens);
      return tokens.map((token) => rows.get(token) ?? []);
    },
    { maxBatchSize: INBOXES_PER_QUERY, maxInFlight: 2 },
  );

  /** Checks whether a row is to be sent; records the receipt of a push that this connection has acknowledged. */
  function isNew(connection: Connection, row: InboxDocument, seen: ReadonlySet<string>): boolean {
    if (seen.has(row.push)) return false;
    const publish = connection.findInFlight(row.push);
    if (publish !== undefined) publish.mustRecordReceipt = true;
    else if (connection.hasAcknowledged(row.push)) receipts.record(connection, toDeliveryRef(row));
    else return true;
    return false;
  }

  async function sendRows(
    connection: Connection,
    rows: InboxDocument[],
    seen: Set<string>,
  ): Promise<void> {
    const { pushes, superseded } = await readPushStates(store, connection.token, rows);
    for (const row of rows) {
      // A worker may have dispatched the push meanwhile, on an earlier result of this connection.
      if (!connection.isOpen() || !isNew(connection, row, seen)) continue;
      seen.add(row.push);
      const push = pushes.get(row.push);
      // A worker that was frozen may have written it after the end of the push, which is final.
      if (push === undefined || hasEnded(push)) await store.inbox.remove(row.push, [row._id]);
      // Rows of an expired or deleted push count until its end is recorded; those of a suspended account stay.
      if (push === undefined || !isSendable(store, push)) continue;
      // A newer push was sent on this connection, or on an earlier one of any gateway (guarantee G9).
      if (connection.hasNewer(push.collapse, row.push) || superseded.has(row.push)) {
        await store.inbox.remove(row.push, [row._id]);
        void producers.checkCompletion([row.push]);
        continue;
      }
      const packet = encodePublish(row.push, push.data);
      const publish = connection.send(packet, toDeliveryRef(row), push.collapse, row.sent);
      publish.mustRecordReceipt = true;
      failpoint('replay', connection.token);
      const span = startSpan?.(push);
      if (span !== undefined) publish.span = span;
      metrics.countPublish('inbox');
    }
  }

  return {
    /**
     * Reads the inbox and sends its new pushes, as fast as the device acknowledges.
     *
     * @param seen pushes that were sent or skipped since the connection started to sync
     * @returns whether there was a new row
     * @throws when MongoDB fails
     */
    async read(connection: Connection, seen: Set<string>): Promise<boolean> {
      // Rows whose receipts are being recorded would appear unacknowledged. And with a full window the first live
      // delivery would be rejected.
      await connection.waitUntil(
        () => !connection.hasPendingReceipts() && connection.hasWindowSpace(),
      );
      const found = await listRows(connection.token);
      connection.dropAwaitedRows(found);
      const rows = found.filter((row) => isNew(connection, row, seen));
      for (let next = 0; next < rows.length; ) {
        await connection.waitUntil(() => connection.hasWindowSpace());
        if (!connection.isOpen()) return false;
        const nextRows = rows.slice(next, next + connection.freeSlots());
        await sendRows(connection, nextRows, seen);
        next += nextRows.length;
      }
      return rows.length > 0;
    },
    /** Checks whether the inbox has a row that was not sent on this connection. */
    async hasNewRows(connection: Connection): Promise<boolean> {
      const rows = await listRows(connection.token);
      return rows.some((row) => isNew(connection, row, new Set()));
    },
  };
}

/** Reads the state of the rows' pushes. Throws when it takes so long that the state may be outdated. */
async function readPushStates(
  store: StateStore,
  token: string,
  rows: readonly InboxDocument[],
): Promise<PushStates> {
  const ids = rows.map((row) => row.push);
  let earlier: Map<string, SendablePush> | undefined;
  for (let read = 0; read < MAX_STATE_READS; read += 1) {
    const startedAt = performance.now();
    const reading = store.pushes.readForSending(ids);
    // A collapse key never changes: with those of the read before, both queries run at the same time.
    const [pushes, superseded] = await Promise.all([
      reading,
      findSuperseded(store, token, earlier ?? (await reading)),
    ]);
    if (performance.now() - startedAt < MAX_STATE_AGE_MS) return { pushes, superseded };
    earlier = pushes;
  }
  throw new Error('reading the state of pushes took too long');
}

/**
 * Finds pushes with a newer push of their collapse key. The older row may still exist although the newer push was
 * sent live on an earlier connection: the older was on its way to a gateway, or to the inbox, at that time. Pushes
 * without a collapse key cost no query.
 */
async function findSuperseded(
  store: StateStore,
  token: string,
  pushes: ReadonlyMap<string, SendablePush>,
): Promise<Set<string>> {
  const superseded = new Set<string>();
  const checks = [...pushes.values()].map(async (push) => {
    const { _id, collapse } = push;
    if (collapse === undefined || !isSendable(store, push)) return;
    if (await store.collapse.hasNewer({ ...push, collapse }, token)) superseded.add(_id);
  });
  await Promise.all(checks);
  return superseded;
}

/** Checks by the state that was read whether a push may be sent: it is open, and its account not suspended. */
function isSendable({ pushes, suspensions }: StateStore, push: SendablePush): boolean {
  return pushes.isSendable(push) && !suspensions.has(push.app);
}

/** Checks whether a push has ended and its rows were removed: no row of it is needed. */
function hasEnded({ state, ending }: SendablePush): boolean {
  return state !== 'open' && ending === undefined;
}

function toDeliveryRef(row: InboxDocument): DeliveryRef {
  const { _id: rowId, push, work, position, notify } = row;
  return { push, work, position, rowId, ...(notify && { notify }) };
}
