import { createGroup } from '@carillon/core/group';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { PushDocument } from './documents.ts';
import { bulkErrors } from './inserting.ts';
import { SENDING_VIEW, type SendingView } from './sending-view.ts';

export type { SendingView } from './sending-view.ts';

/** How long an idempotency key is remembered (guarantee G2). */
const IDEMPOTENCY_MS = 86_400_000;

/** Accepted pushes. */
export function createPushes(db: Db, clock: Clock) {
  const pushes = db.collection<PushDocument>('pushes');

  /** Undefined: kept. True: the idempotency key is taken. */
  const insertGrouped = createGroup<PushDocument, true | undefined>(
    async (documents) => {
      const errors = await bulkErrors(
        pushes,
        documents.map((document) => ({ insertOne: { document } })),
      );
      return documents.map(({ idempotency }, index) => {
        const one = errors.get(index);
        return one?.duplicate && idempotency !== undefined ? true : one?.error;
      });
    },
    { maxItems: 500 },
  );

  const readGrouped = createGroup<string, SendingView | undefined>(
    async (ids) => {
      const found = await pushes
        .find<SendingView>(
          { _id: { $in: ids } },
          { projection: SENDING_VIEW, batchSize: ids.length + 1 },
        )
        .toArray();
      const byId = new Map(found.map((push) => [push._id, push]));
      return ids.map((id) => byId.get(id));
    },
    { maxItems: 500, inFlight: 4 },
  );

  /** A key binds for a day, and only to a push that came to be. */
  function isBinding({ state, acceptedAt }: PushDocument): boolean {
    return state !== 'abandoned' && acceptedAt.getTime() > clock.now() - IDEMPOTENCY_MS;
  }

  return {
    /**
     * Keeps a push for good: majority and journal. Lone inserts share the sync (guarantee G1). If an earlier push
     * holds the same idempotency key, that one is returned and nothing is kept.
     */
    async insert(push: PushDocument): Promise<PushDocument | undefined> {
      while (await insertGrouped(push)) {
        const holder = { app: push.app, 'idempotency.key': push.idempotency?.key };
        const earlier = await pushes.findOne(holder);
        if (earlier !== null && isBinding(earlier)) return earlier;
        if (earlier !== null) {
          await pushes.updateOne({ _id: earlier._id }, { $unset: { idempotency: true } });
        }
      }
      return undefined;
    },

    /** The push that an app's idempotency key stands for; undefined when the key is free. */
    async findByKey(app: string, key: string): Promise<PushDocument | undefined> {
      const found = await pushes.findOne({ app, 'idempotency.key': key });
      return found !== null && isBinding(found) ? found : undefined;
    },

    /** The commit of a push of many batches; false if it was given up meanwhile. */
    async commit(id: string, state: 'open' | 'scheduled'): Promise<boolean> {
      const { matchedCount } = await pushes.updateOne(
        { _id: id, state: 'accepting' },
        { $set: { state } },
      );
      return matchedCount === 1;
    },

    /** Opens scheduled pushes whose time has come, by MongoDB's clock: never early. */
    async openDue(): Promise<number> {
      const { modifiedCount } = await pushes.updateMany(
        { state: 'scheduled', $expr: { $lte: ['$dueAt', '$$NOW'] } },
        { $set: { state: 'open' } },
      );
      return modifiedCount;
    },

    /** What senders need of these pushes; those that are gone are left out. */
    async readForSending(ids: readonly string[]): Promise<Map<string, SendingView>> {
      const views = await Promise.all(ids.map((id) => readGrouped(id)));
      return new Map(
        views.flatMap((view): [string, SendingView][] => (view ? [[view._id, view]] : [])),
      );
    },

    /** Whether anything of this push may still be sent (guarantees G6 and G8). */
    isSendable: (push: Pick<SendingView, 'state' | 'sendUntil'>): boolean =>
      push.state === 'open' && clock.now() < push.sendUntil.getTime(),

    /** A push of an app, whole; undefined when absent or another app's. */
    find: async (app: string, id: string) => (await pushes.findOne({ _id: id, app })) ?? undefined,

    /** A push of any app, whole, for the operators' command line. */
    inspect: async (id: string) => (await pushes.findOne({ _id: id })) ?? undefined,

    /** The payloads of an app's pushes. */
    payloads: (app: string, ids: readonly string[]) =>
      pushes
        .find(
          { _id: { $in: [...ids] }, app },
          {
            projection: { acceptedAt: 1, expiresAt: 1, data: 1, state: 1 },
            batchSize: ids.length + 1,
          },
        )
        .toArray(),
  };
}
