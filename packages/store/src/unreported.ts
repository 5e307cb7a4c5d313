import type { Collection, Db, Document, Filter } from 'mongodb';
import { fromNow } from './clock.ts';
import type { NotifyEntry, PushDocument, WebhookDocument } from './documents.ts';
import { type ClaimedReport, countUnreported } from './outbox.ts';

/** Time for which a push is kept past its retention for webhooks to which it was not reported. */
const KEEP_MS = 3 * 86_400_000;
const CHECK_INTERVAL_MS = 600_000;

type Holder = Pick<PushDocument, '_id' | 'app' | 'notify' | 'work' | 'counts'> & { push?: string };

/**
 * Keeps pushes that were not completely reported to an enabled webhook, at most three days past their retention. Then
 * it counts the events that are removed with them, in the webhook. Without pushes it reads nothing.
 *
 * @param ids pushes that have webhooks, and whose retention has ended
 * @returns those that are kept
 */
export async function keepUnreported(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const pushes = db.collection<PushDocument>('pushes');
  const unreported = await findUnreported(db, ids);
  if (unreported.size === 0) return new Set();
  const candidates = { _id: { $in: [...unreported.keys()] } };
  const keepUntil = { $ifNull: ['$keepUntil', { $add: ['$purgeAt', KEEP_MS] }] };
  await pushes.updateMany(candidates, [
    { $set: { keepUntil } },
    { $set: { purgeAt: { $min: ['$keepUntil', fromNow(CHECK_INTERVAL_MS)] } } },
  ]);
  const kept = await pushes
    .find({ ...candidates, $expr: { $gt: ['$keepUntil', '$$NOW'] } }, { projection: { _id: 1 } })
    .map(({ _id }) => _id)
    .toArray();
  for (const id of kept) unreported.delete(id);
  await countDropped(db, [...unreported.values()].flat());
  return new Set(kept);
}

/** An entry that is to be reported, and how many events it stands for. */
interface Unreported {
  webhook: string;
  events: number;
}

async function findUnreported(db: Db, ids: readonly string[]): Promise<Map<string, Unreported[]>> {
  const on = await listOn(db, ids);
  const found = new Map<string, Unreported[]>();
  if (on.length === 0) return found;
  const isUnreported = { notify: { $elemMatch: { w: { $in: on }, at: { $exists: true } } } };
  const sources = [
    { kind: 'pushes', filter: { _id: { $in: [...ids] }, ...isUnreported } },
    { kind: 'batches', filter: { push: { $in: [...ids] }, ...isUnreported } },
  ] as const;
  for (const { kind, filter } of sources) {
    const holders = db.collection<Holder>(kind).find(filter as Filter<Holder>);
    for await (const { notify = [], ...document } of holders) {
      const entries = notify.filter(({ w, at }) => at !== undefined && on.includes(w));
      const push = document.push ?? document._id;
      const list = found.get(push) ?? [];
      found.set(push, list);
      for (const entry of entries)
        list.push({ webhook: entry.w, events: countEvents(kind, document, entry) });
    }
  }
  return found;
}

function countEvents(kind: 'pushes' | 'batches', document: object, entry: NotifyEntry): number {
  return countUnreported({ id: '', claim: '', kind, document, entry } as ClaimedReport);
}

/** Lists the webhooks of these pushes that are on. */
async function listOn(db: Db, ids: readonly string[]): Promise<string[]> {
  const pushes: Collection<PushDocument> = db.collection('pushes');
  const all = await pushes.distinct('notify.w', { _id: { $in: [...ids] } });
  return db
    .collection<WebhookDocument>('webhooks')
    .find({ _id: { $in: all }, off: { $exists: false } }, { projection: { _id: 1 } })
    .map(({ _id }) => _id)
    .toArray();
}

async function countDropped(db: Db, dropped: readonly Unreported[]): Promise<void> {
  const byWebhook = Map.groupBy(dropped, ({ webhook }) => webhook);
  for (const [_id, some] of byWebhook) {
    const events = some.reduce((sum, one) => sum + one.events, 0);
    const update: Document = { $inc: { dropped: events } };
    if (events > 0) await db.collection<WebhookDocument>('webhooks').updateOne({ _id }, update);
  }
}
