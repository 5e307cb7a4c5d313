import type { Db } from 'mongodb';
import { splitTokens } from '../../packages/core/src/batch.ts';
import { describeOutcome } from '../../packages/core/src/outcomes.ts';
import type { BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { OUTCOME_PROJECTION, outcomeCodes } from '../../packages/store/src/recipient-status.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import type { Outcomes, PushEnd, SentPush, StoredPush } from './history.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import { MARK } from './provider-log.ts';
import type { System } from './system.ts';

/** Fields of a push and its batches that decide about outcomes. */
type PushFields = Pick<PushDocument, '_id' | 'counts' | 'finishedAt' | 'purgeAt' | 'work'>;
type BatchFields = Pick<BatchDocument, '_id' | 'push' | 'work'>;

/** A push that may be removed so soon is read one by one: a reader sees it as a whole, or not at all. */
const REMOVED_SOON_MS = 60_000;

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
  const found = new Map<string, StoredPush[]>();
  for (const tenant of TENANT_NAMES) {
    const pushes = db
      .collection<PushDocument>('pushes')
      .find<Pick<PushDocument, '_id' | 'acceptedAt' | 'data'>>(
        { app: tenants[tenant].app, state: { $ne: 'abandoned' } },
        { projection: { acceptedAt: 1, data: 1 } },
      );
    for await (const { _id: id, acceptedAt, data } of pushes) {
      const key = `${tenant} ${MARK.exec(data)?.[0]}`;
      found.set(key, [...(found.get(key) ?? []), { id, acceptedAtMs: acceptedAt.getTime() }]);
    }
  }
  for (const push of sent) push.stored = found.get(`${push.tenant} ${push.mark}`) ?? [];
}

/**
 * Reads from the database how pushes have ended, by a range of their ids: two cursors read all pushes and all batches once. A
 * push that is not final is read one by one, as its status depends on inbox rows.
 *
 * @param audiences tokens of the recipients by push id
 */
export async function readStored(
  { db, store }: { db: Db } & Pick<System, 'store'>,
  audiences: ReadonlyMap<string, readonly string[]>,
): Promise<Map<string, PushEnd['stored']>> {
  const [first, last] = findRange(audiences.keys());
  // Batches have the id of their push, and a number behind it.
  const range = { $gte: first, $lt: `${last}.` };
  const pushes = db
    .collection<PushDocument>('pushes')
    .find<PushFields>(
      { _id: range },
      { projection: { ...WORK_FIELDS, counts: 1, finishedAt: 1, purgeAt: 1 } },
    )
    .sort({ _id: 1 });
  const batches = db
    .collection<BatchDocument>('batches')
    .find<BatchFields>(
      { _id: range, 'work.fallback': { $exists: false } },
      { projection: { ...WORK_FIELDS, push: 1 } },
    )
    .sort({ _id: 1 });
  const ends = new Map<string, PushEnd['stored']>();
  for await (const { push, batches: own } of joinBatches(pushes, batches)) {
    const audience = audiences.get(push._id);
    if (audience === undefined) continue;
    const end = describeStored(push, own, audience) ?? (await readOne(store, push._id, audience));
    const finishedAtMs = push.finishedAt?.getTime();
    ends.set(push._id, { ...end, ...(finishedAtMs !== undefined && { finishedAtMs }) });
  }
  return ends;
}

/** Joins pushes with their batches; both are in order of their ids. Batches of other pushes are left out. */
export async function* joinBatches<
  Push extends Pick<PushFields, '_id'>,
  Holder extends Pick<BatchFields, 'push'>,
>(
  pushes: AsyncIterable<Push>,
  batches: AsyncIterable<Holder>,
): AsyncGenerator<{ push: Push; batches: Holder[] }> {
  const rest = batches[Symbol.asyncIterator]();
  try {
    let next = await rest.next();
    for await (const push of pushes) {
      const own: Holder[] = [];
      while (next.done !== true && next.value.push <= push._id) {
        if (next.value.push === push._id) own.push(next.value);
        next = await rest.next();
      }
      yield { push, batches: own };
    }
  } finally {
    await rest.return?.();
  }
}

/** Describes a push by its documents; undefined if they alone do not decide. */
export function describeStored(
  { counts, purgeAt, work }: Omit<PushFields, '_id' | 'finishedAt'>,
  batches: readonly Pick<BatchFields, 'work'>[],
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
  return {
    counts: mergePending(counts),
    recipients: Object.fromEntries(
      audience.map((token) => [token, outcomes.get(token) ?? 'none'] as const),
    ),
  };
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

function findRange(ids: Iterable<string>): [first: string, last: string] {
  const sorted = [...ids].sort();
  return [sorted[0] ?? '', sorted.at(-1) ?? ''];
}
