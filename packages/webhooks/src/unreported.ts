import { processCounts } from '@carillon/core/process-counts';
import { fromNow } from '@carillon/store/clock';
import type { PushDocument, WebhookDocument } from '@carillon/store/documents';
import type { Collection, Db, Document, Filter } from 'mongodb';
import { type ClaimedReport, countUnreported } from './outbox.ts';

/** Time for which a push is kept past its retention for webhooks to which it was not reported. */
const KEEP_MS = 3 * 86_400_000;
/** Interval between two checks of a push that is kept for webhooks. */
const CHECK_INTERVAL_MS = 600_000;

type Holder = Pick<PushDocument, '_id' | 'app' | 'notify' | 'work' | 'counts'> & { push?: string };

/**
 * Keeps pushes that were not completely reported to an enabled webhook, at most three days past their retention. Then,
 * or at once if the webhooks are off, it counts the events that go with them, in the webhook. Without pushes it reads
 * nothing.
 *
 * @param ids pushes that have webhooks, and whose retention has ended
 * @returns those that are kept
 */
export async function keepUnreported(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const unreported = await findUnreported(db, ids);
  const waiting = [...unreported].flatMap(([id, list]) =>
    list.some(({ isOn }) => isOn) ? [id] : [],
  );
  const kept = waiting.length === 0 ? [] : await postponeRemoval(db, waiting);
  for (const id of kept) unreported.delete(id);
  await countDropped(db, [...unreported.values()].flat());
  return new Set(kept);
}

/** Postpones the removal of pushes, and returns those that were not kept for three days yet. */
async function postponeRemoval(db: Db, ids: readonly string[]): Promise<string[]> {
  const pushes = db.collection<PushDocument>('pushes');
  const candidates = { _id: { $in: [...ids] } };
  const keepUntil = { $ifNull: ['$keepUntil', { $add: ['$purgeAt', KEEP_MS] }] };
  await pushes.updateMany(candidates, [
    { $set: { keepUntil } },
    { $set: { purgeAt: { $min: ['$keepUntil', fromNow(CHECK_INTERVAL_MS)] } } },
  ]);
  return pushes
    .find({ ...candidates, $expr: { $gt: ['$keepUntil', '$$NOW'] } }, { projection: { _id: 1 } })
    .map(({ _id }) => _id)
    .toArray();
}

/** An entry that is to be reported, and how many events it stands for. */
interface Unreported {
  webhook: string;
  isOn: boolean;
  events: number;
}

async function findUnreported(db: Db, ids: readonly string[]): Promise<Map<string, Unreported[]>> {
  const webhooks = await listWebhooks(db, ids);
  const found = new Map<string, Unreported[]>();
  if (webhooks.size === 0) return found;
  const isUnreported = {
    notify: { $elemMatch: { w: { $in: [...webhooks.keys()] }, at: { $exists: true } } },
  };
  const sources = [
    { kind: 'pushes', filter: { _id: { $in: [...ids] }, ...isUnreported } },
    { kind: 'batches', filter: { push: { $in: [...ids] }, ...isUnreported } },
  ] as const;
  for (const { kind, filter } of sources) {
    const holders = db.collection<Holder>(kind).find(filter as Filter<Holder>);
    for await (const { notify = [], ...document } of holders) {
      const push = document.push ?? document._id;
      const list = found.get(push) ?? [];
      found.set(push, list);
      for (const entry of notify) {
        const webhook = webhooks.get(entry.w);
        if (entry.at === undefined || webhook === undefined) continue;
        const report = { id: '', claim: '', kind, document, entry } as ClaimedReport;
        const events = countUnreported(report, webhook);
        list.push({ webhook: entry.w, isOn: webhook.off === undefined, events });
      }
    }
  }
  return found;
}

type ReportedWebhook = Pick<WebhookDocument, '_id' | 'events' | 'off'>;

/** Returns the webhooks of these pushes, but for those that were removed. */
async function listWebhooks(db: Db, ids: readonly string[]): Promise<Map<string, ReportedWebhook>> {
  const pushes: Collection<PushDocument> = db.collection('pushes');
  const all = await pushes.distinct('notify.w', { _id: { $in: [...ids] } });
  const found = await db
    .collection<WebhookDocument>('webhooks')
    .find<ReportedWebhook>({ _id: { $in: all } }, { projection: { events: 1, off: 1 } })
    .toArray();
  return new Map(found.map((webhook) => [webhook._id, webhook]));
}

async function countDropped(db: Db, dropped: readonly Unreported[]): Promise<void> {
  const byWebhook = Map.groupBy(dropped, ({ webhook }) => webhook);
  for (const [_id, some] of byWebhook) {
    const events = some.reduce((sum, one) => sum + one.events, 0);
    if (events === 0) continue;
    const update: Document = { $inc: { dropped: events } };
    await db.collection<WebhookDocument>('webhooks').updateOne({ _id }, update);
    processCounts.webhookEventsDropped += events;
  }
}
