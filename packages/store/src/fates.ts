import { fallbackId } from '@carillon/core/ids';
import {
  addCounts,
  describeOutcome,
  OUTCOMES,
  type OutcomeCounts,
  type OutcomeName,
} from '@carillon/core/outcomes';
import { hasBit, splitTokens } from '@carillon/core/work';
import type { Db } from 'mongodb';
import { bytesOf, numberAt } from './bytes.ts';
import type {
  BatchDocument,
  InboxDocument,
  PushDocument,
  RecipientFate,
  Work,
} from './documents.ts';

/** How one recipient stands, as far as its work tells: `inbox` only while a row can still owe it. */
function codeAt(work: Work, position: number): number {
  if (hasBit(work.got ?? {}, position)) return OUTCOMES.delivered;
  const code = bytesOf(work.outcomes)[position];
  if (work.state !== 'closed') return OUTCOMES.owed;
  // Closed by the push's end: who has no outcome of its own yet has the end's.
  return code || (work.ended ?? OUTCOMES.owed);
}

/** A push's batches without fallbacks: each recipient is in one of them. */
export function answerable(push: string) {
  return { push, 'work.fallback': { $exists: false } } as const;
}

/** Counts a unit of work by outcome. */
export function countWork(work: Work): OutcomeCounts {
  const counts: OutcomeCounts = {};
  for (let position = 0; position < work.n; position += 1) {
    const { outcome } = describeOutcome(codeAt(work, position));
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

/** The recipients whom a fallback's provider took the push for. */
export function sentTo({ work }: Pick<BatchDocument, 'work'>): string[] {
  return splitTokens(work.tokens).filter(
    (_, position) => bytesOf(work.outcomes)[position] === OUTCOMES.sent,
  );
}

/** How a push stands: its recipients by outcome. */
interface PushFate {
  id: string;
  state: PushDocument['state'];
  devices: number;
  outcomes: OutcomeCounts;
}

interface KnownRecipient {
  push: PushDocument;
  /** The id of its work. */
  work: string;
  position: number;
  fate: RecipientFate;
}

/** How recipients of pushes stand or ended. */
export function createFates(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  /** All of a push's work, one unit at a time. */
  async function* workOf(
    push: Pick<PushDocument, '_id' | 'work'>,
  ): AsyncGenerator<{ id: string; work: Work }> {
    if (push.work !== undefined) yield { id: push._id, work: push.work };
    else
      for await (const { _id, work } of batches.find(answerable(push._id))) yield { id: _id, work };
  }

  async function rowOwes(
    push: string,
    { work, position }: Pick<KnownRecipient, 'work' | 'position'>,
  ): Promise<boolean> {
    return (await inbox.findOne({ push, work, position }, { projection: { _id: 1 } })) !== null;
  }

  return {
    /**
     * Counts per outcome. While a push is open, `inbox` counts the devices that are still owed it and `owed`
     * those that nobody has tried yet; a row that gave way to a newer push of its collapse key is superseded.
     */
    async ofPush(id: string): Promise<PushFate | undefined> {
      const push = await pushes.findOne({ _id: id });
      if (push === null) return undefined;
      if (push.counts !== undefined) return facts(push, push.counts);
      const before = await sumOf(push);
      const rows = before.inbox === undefined ? 0 : await inbox.countDocuments({ push: id });
      if ((before.inbox ?? 0) <= rows) return facts(push, before);
      // Read again: receipts are noted, and ends counted, before rows go.
      const now = (await pushes.findOne({ _id: id })) ?? push;
      return facts(now, now.counts ?? withRows(await sumOf(now), rows));
    },

    /** How one recipient stands; undefined if the push doesn't exist or wasn't for it. */
    async ofRecipient(id: string, token: string): Promise<RecipientFate | undefined> {
      const known = await lookUp(id, token);
      if (known?.fate.outcome !== 'inbox' || (await rowOwes(id, known))) return known?.fate;
      // Read again: receipts are noted, and ends begun, before rows go.
      const now = await lookUp(id, token);
      if (now?.fate.outcome !== 'inbox') return now?.fate;
      return { ...now.fate, outcome: await endWithoutRow(now, token) };
    },
  };

  /** Where a recipient's work is and what it tells. */
  async function lookUp(id: string, token: string): Promise<KnownRecipient | undefined> {
    const push = await pushes.findOne({ _id: id });
    if (push === null) return undefined;
    for await (const { id: workId, work } of workOf(push)) {
      const position = splitTokens(work.tokens).indexOf(token);
      if (position < 0) continue;
      const milliseconds = numberAt(work.ms, position);
      const described = describeOutcome(codeAt(work, position));
      const fate = { ...described, ...(milliseconds > 0 && { milliseconds }) };
      return { push, work: workId, position, fate };
    }
    return undefined;
  }

  /** The strongest that is known: superseded where a newer push took the row, else sent before expired or deleted. */
  async function endWithoutRow(
    { push, work }: KnownRecipient,
    token: string,
  ): Promise<OutcomeName> {
    if (push.state === 'open' || push.finishedAt !== undefined) return 'superseded';
    const fallback = await batches.findOne({ _id: fallbackId(work) });
    if (fallback !== null && sentTo(fallback).includes(token)) return 'sent';
    return push.state === 'deleted' ? 'deleted' : 'expired';
  }

  async function sumOf(push: Pick<PushDocument, '_id' | 'work'>): Promise<OutcomeCounts> {
    let sum: OutcomeCounts = {};
    for await (const { work } of workOf(push)) sum = addCounts(sum, countWork(work));
    return sum;
  }
}

function facts({ _id, state, devices }: PushDocument, outcomes: OutcomeCounts): PushFate {
  return { id: _id, state, devices, outcomes };
}

/** Of those whose last outcome is `inbox`, the ones without a row gave way to a newer push. */
function withRows({ inbox: handed = 0, ...others }: OutcomeCounts, rows: number): OutcomeCounts {
  const owed = Math.min(rows, handed);
  return {
    ...addCounts(others, owed < handed ? { superseded: handed - owed } : {}),
    ...(owed > 0 && { inbox: owed }),
  };
}
