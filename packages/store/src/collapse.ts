import { splitTokens } from '@carillon/core/batch';
import { createBatcher } from '@carillon/core/batcher';
import type { Collection, Db, Document } from 'mongodb';
import type { BatchDocument, PushDocument } from './documents.ts';
import { RECIPIENT_INDEX } from './migrate.ts';

/** Maximum newer pushes of one key that are compared. */
const MAX_NEWER_PUSHES = 100;

/** Maximum newer pushes of one key that a re-drive compares. */
const MAX_COMPARED_PUSHES = 1_000;

const OPEN_OR_FINISHED = { $in: ['open' as const, 'finished' as const] };

/** A push with a collapse key. */
interface CollapsiblePush {
  _id: string;
  app: string;
  collapse: string;
}

interface NewerQuery {
  push: CollapsiblePush;
  token: string;
}

/** Finds recipients of a push that have a newer push of the same collapse key. */
export function createCollapse(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const hasNewerBatched = createBatcher<NewerQuery, boolean>(
    'find-newer-push',
    (queries) => checkNewer({ pushes, batches }, queries),
    { maxBatchSize: 64, maxInFlight: 2 },
  );
  return {
    /** Returns whether the device has a newer push of the key; concurrent calls share a query. */
    hasNewer: (push: CollapsiblePush, token: string): Promise<boolean> =>
      hasNewerBatched({ push, token }),

    /**
     * Finds the tokens between `from` and `to` that have a newer push of the same app and key (guarantee G9).
     * Subscribers of a topic count as soon as they are in a batch; until then the inbox and the gateway decide.
     */
    async findNewerRecipients(
      push: CollapsiblePush,
      from: string,
      to: string,
    ): Promise<Set<string>> {
      const newer = await pushes
        .find(
          {
            app: push.app,
            collapse: push.collapse,
            _id: { $gt: push._id },
            state: OPEN_OR_FINISHED,
          },
          { projection: { 'work.tokens': 1 } },
        )
        .sort({ _id: -1 })
        .limit(MAX_NEWER_PUSHES)
        .toArray();
      const tokens = new Set(newer.flatMap(({ work }) => splitTokens(work?.tokens ?? '')));
      const inBatches = newer.flatMap(({ _id, work }) => (work === undefined ? [_id] : []));
      if (inBatches.length === 0) return tokens;
      const overlapping = batches.find(
        { push: { $in: inBatches }, from: { $lte: to }, to: { $gte: from } },
        { projection: { 'work.tokens': 1 }, hint: RECIPIENT_INDEX },
      );
      for await (const { work } of overlapping) {
        for (const token of splitTokens(work.tokens)) tokens.add(token);
      }
      return tokens;
    },

    /**
     * Returns the tokens to which a re-drive of the push must not send, because they may have a newer push of its key.
     * These are all of the tokens if there are too many newer pushes to compare, or if one of them isn't in batches
     * completely: the re-driven payload would be the newest of the key (guarantee G9).
     */
    filterSuperseded: (push: CollapsiblePush, tokens: readonly string[]): Promise<Set<string>> =>
      filterSuperseded({ pushes, batches }, push, tokens),
  };
}

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
}

async function filterSuperseded(
  { pushes, batches }: Tables,
  { _id, app, collapse }: CollapsiblePush,
  tokens: readonly string[],
): Promise<Set<string>> {
  const all = new Set(tokens);
  const superseded = new Set<string>();
  const sorted = [...all].sort();
  function add(joined: string): void {
    for (const token of splitTokens(joined)) if (all.has(token)) superseded.add(token);
  }
  const newer = pushes
    .find(
      { app, collapse, _id: { $gt: _id }, state: OPEN_OR_FINISHED },
      { projection: { 'work.tokens': 1, 'fan.done': 1, state: 1 } },
    )
    .limit(MAX_COMPARED_PUSHES + 1);
  let compared = 0;
  const inBatches: string[] = [];
  for await (const push of newer) {
    compared += 1;
    const isFanningOut = push.state === 'open' && !push.fan.done;
    if (compared > MAX_COMPARED_PUSHES || isFanningOut) return all;
    if (push.work === undefined) inBatches.push(push._id);
    else add(push.work.tokens);
  }
  if (inBatches.length === 0) return superseded;
  const overlapping = batches.find(
    {
      push: { $in: inBatches },
      from: { $lte: sorted.at(-1) ?? '' },
      to: { $gte: sorted[0] ?? '' },
    },
    { projection: { 'work.tokens': 1 }, hint: RECIPIENT_INDEX },
  );
  for await (const { work } of overlapping) add(work.tokens);
  return superseded;
}

/** A newer push, and those of the queried devices that are in its only batch. */
type NewerPush = Pick<PushDocument, '_id' | 'app' | 'collapse'> & {
  tokens: string[];
  isInBatches: boolean;
};

/**
 * Compares the oldest of the newer pushes: a push that has overtaken an older one was accepted soon after it. An app
 * may use one key for all its pushes, and the many newer ones must not hide that push.
 */
async function checkNewer({ pushes, batches }: Tables, queries: NewerQuery[]): Promise<boolean[]> {
  const oldest = new Map<string, CollapsiblePush>();
  for (const { push } of queries) {
    const oldestSoFar = oldest.get(collapseKeyOf(push));
    if (oldestSoFar === undefined || push._id < oldestSoFar._id)
      oldest.set(collapseKeyOf(push), push);
  }
  const tokens = [...new Set(queries.map(({ token }) => token))];
  const newerFilters = [...oldest.values()].map(({ _id, app, collapse }) => {
    return { app, collapse, _id: { $gt: _id }, state: OPEN_OR_FINISHED };
  });
  const projection = {
    app: 1,
    collapse: 1,
    tokens: filterTokensIn('$work.tokens', tokens),
    isInBatches: { $eq: [{ $type: '$work' }, 'missing'] },
  };
  const newer = await pushes
    .find<NewerPush>({ $or: newerFilters }, { projection })
    .sort({ _id: 1 })
    .limit(MAX_NEWER_PUSHES * newerFilters.length)
    .toArray();
  const inBatches = newer.flatMap(({ _id, isInBatches }) => (isInBatches ? [_id] : []));
  const batchTokens = await findTokensInBatches(batches, inBatches, tokens);
  return queries.map(({ push, token }) =>
    newer.some(
      (one) =>
        one._id > push._id &&
        collapseKeyOf(one) === collapseKeyOf(push) &&
        (one.tokens.includes(token) || batchTokens.get(one._id)?.has(token) === true),
    ),
  );
}

function collapseKeyOf({ app, collapse = '' }: Pick<NewerPush, 'app' | 'collapse'>): string {
  return `${app} ${collapse}`;
}

/**
 * Builds an expression for those of the tokens that a field of joined tokens contains; one may be a substring of
 * another.
 */
function filterTokensIn(field: string, tokens: readonly string[]): Document {
  const joined = { $concat: [' ', { $ifNull: [field, ''] }, ' '] };
  const isIn = { $gte: [{ $indexOfBytes: [joined, { $concat: [' ', '$$this', ' '] }] }, 0] };
  return { $filter: { input: { $literal: tokens }, cond: isIn } };
}

/** Finds which of the tokens are in the batches of each push. */
async function findTokensInBatches(
  batches: Collection<BatchDocument>,
  pushes: readonly string[],
  tokens: readonly string[],
): Promise<Map<string, Set<string>>> {
  const found = new Map<string, Set<string>>();
  if (pushes.length === 0) return found;
  const ranges = tokens.map((token) => ({ from: { $lte: token }, to: { $gte: token } }));
  const overlapping = batches.find<{ push: string; tokens: string[] }>(
    { push: { $in: [...pushes] }, $or: ranges },
    {
      projection: { push: 1, tokens: filterTokensIn('$work.tokens', tokens) },
      hint: RECIPIENT_INDEX,
    },
  );
  for await (const { push, tokens: matchingTokens } of overlapping) {
    found.set(push, new Set([...(found.get(push) ?? []), ...matchingTokens]));
  }
  return found;
}
