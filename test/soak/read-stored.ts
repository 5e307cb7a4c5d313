import type { Db } from 'mongodb';
import { splitTokens } from '../../packages/core/src/batch.ts';
import { describeOutcome } from '../../packages/core/src/outcomes.ts';
import type { BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { OUTCOME_PROJECTION, outcomeCodes } from '../../packages/store/src/recipient-status.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import type { Outcomes, PushEnd, SentPush } from './history.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import { MARK } from './provider-log.ts';
import type { System } from './system.ts';

/** A push that may be removed so soon is read one by one: a reader sees it as a whole, or not at all. */
const REMOVED_SOON_MS = 60_000;
const PUSHES_AT_ONCE = 1_000;
const WORK_FIELDS = { ...OUTCOME_PROJECTION, 'work.tokens': 1 } as const;

/**
 * Reads which pushes of the tenants the database has, and adds to each push that was sent those with its mark in their
 * payload. Thus it is known whether a push without a response was accepted.
 */
export async function addStored(
  db: Db,
  tenants: Record<TenantName, Pick<TestTenant, 'app'>>,
  sent: readonly SentPush[],
): Promise<void> {
  const found = new Map<string, { id: string; acceptedAtMs: number }[]>();
  for (const tenant of TENANT_NAMES) {
    const pushes = db
      .collection<PushDocument>('pushes')
      .find({ app: tenants[tenant].app, state: { $ne: 'abandoned' } })
      .project<Pick<PushDocument, '_id' | 'acceptedAt' | 'data'>>({ acceptedAt: 1, data: 1 });
    for await (const { _id: id, acceptedAt, data } of pushes) {
      const key = `${tenant} ${MARK.exec(data)?.[0]}`;
      found.set(key, [...(found.get(key) ?? []), { id, acceptedAtMs: acceptedAt.getTime() }]);
    }
  }
  for (const push of sent) push.stored = found.get(`${push.tenant} ${push.mark}`) ?? [];
}

/**
 * Reads from the database how pushes have ended, many at once. A push that is not final is read one by one, as its status
 * depends on inbox rows.
 */
export async function readStored(
  { db, store }: { db: Db } & Pick<System, 'store'>,
  accepted: ReadonlyMap<string, Pick<SentPush, 'audience'>>,
): Promise<Map<string, PushEnd['stored']>> {
  const ends = new Map<string, PushEnd['stored']>();
  for (const all = [...accepted.keys()]; all.length > 0; ) {
    const ids = { $in: all.splice(0, PUSHES_AT_ONCE) };
    const projection = { ...WORK_FIELDS, push: 1, counts: 1, finishedAt: 1, purgeAt: 1 };
    const [pushes, batches] = await Promise.all([
      db.collection<PushDocument>('pushes').find({ _id: ids }, { projection }).toArray(),
      db
        .collection<BatchDocument>('batches')
        .find({ push: ids, 'work.fallback': { $exists: false } }, { projection })
        .toArray(),
    ]);
    const batchesOf = Map.groupBy(batches, ({ push }) => push);
    for (const push of pushes) {
      const { audience } = accepted.get(push._id) ?? { audience: [] };
      const described = describeStored(push, batchesOf.get(push._id) ?? [], audience);
      const end = described ?? (await readOne(store, push._id, audience));
      const finishedAtMs = push.finishedAt?.getTime();
      ends.set(push._id, { ...end, ...(finishedAtMs !== undefined && { finishedAtMs }) });
    }
  }
  return ends;
}

/** Describes a push by its documents; undefined if they alone do not decide. */
export function describeStored(
  { counts, purgeAt, work }: Pick<PushDocument, 'counts' | 'purgeAt' | 'work'>,
  batches: readonly Pick<BatchDocument, 'work'>[],
  audience: readonly string[],
): Outcomes | undefined {
  const isKept = purgeAt === undefined || purgeAt.getTime() > Date.now() + REMOVED_SOON_MS;
  if (counts === undefined || !isKept) return undefined;
  const outcomes = new Map<string, string>();
  for (const one of work === undefined ? batches.map((batch) => batch.work) : [work]) {
    const codes = outcomeCodes(one);
    for (const [position, token] of splitTokens(one.tokens).entries())
      if (!outcomes.has(token)) outcomes.set(token, describeOutcome(codes[position] ?? 0).outcome);
  }
  if ([...outcomes.values()].includes('inbox')) return undefined;
  const recipients = audience.map((token) => [token, outcomes.get(token) ?? 'none'] as const);
  return { counts: mergePending(counts), recipients: Object.fromEntries(recipients) };
}

async function readOne(
  { deliveryStatus }: System['store'],
  id: string,
  audience: readonly string[],
): Promise<Outcomes> {
  const counts = mergePending((await deliveryStatus.statusOfPush(id))?.outcomes ?? {});
  const recipients: Record<string, string> = {};
  for (const token of audience) {
    const outcome = (await deliveryStatus.statusOfRecipient(id, token))?.outcome ?? 'none';
    recipients[token] = outcome === 'inbox' ? 'pending' : outcome;
  }
  return { counts, recipients };
}

/** Counts those with an inbox row as pending, as the API does. */
function mergePending({ pending: unsent = 0, inbox = 0, ...ended }: Record<string, number>) {
  const pending = unsent + inbox;
  return { ...ended, ...(pending > 0 && { pending }) };
}
