import { failed, OUTCOMES } from '@carillon/core/outcomes';
import type { Channel } from '@carillon/core/platforms';
import { hasBit, splitTokens } from '@carillon/core/work';
import { bytesOf } from '@carillon/store/bytes';
import type { PutOffEntry } from '@carillon/store/documents';
import type { SendingView } from '@carillon/store/pushes';
import type { Settlement } from '@carillon/store/work-table';
import type { UnfinishedWork } from '@carillon/store/work-unfinished';
import type { DeliverByChannel, Delivery } from './channel.ts';
import type { HeldWork } from './leases.ts';

/** How old the push's state may be when something is sent. */
const STATE_MAX_AGE_MS = 500;

/** What delivering a unit of work needs. */
export interface DeliverDeps {
  leases: {
    take(id: string): Promise<HeldWork | undefined>;
    drop(work: HeldWork): void;
  };
  channels: Partial<Record<Channel, DeliverByChannel>>;
  readPush(id: string): Promise<SendingView | undefined>;
  isSendable(push: SendingView): boolean;
  /** The process is to end: work under way is given back. */
  isStopping(): boolean;
  /** Positions that the worker before is known to have reached. */
  receivedBefore(work: HeldWork): Promise<readonly number[]>;
  /** Tokens of the work that a newer push of its collapse key is for. */
  newerRecipients(push: SendingView, tokens: readonly string[]): Promise<ReadonlySet<string>>;
  giveBack(work: HeldWork, delayMs: number, received: readonly number[]): Promise<void>;
  /** False: the claim was lost. */
  saveOutcomes(unfinished: UnfinishedWork): Promise<boolean>;
  settle(push: SendingView, settlement: Settlement, work: HeldWork): Promise<void>;
  /** Tokens of a fallback whose device hasn't acknowledged on its own link yet. */
  stillOwed(push: SendingView, tokens: readonly string[]): Promise<ReadonlySet<string>>;
  /** Gives those that haven't acknowledged to another channel, before the work closes. */
  arrangeFallBack(
    push: SendingView,
    work: HeldWork,
    tokens: readonly string[],
    outcomes: Uint8Array,
  ): Promise<void>;
  now(): number;
}

/** What came of it, for the log and the metrics. */
export interface Delivered {
  work: string;
  end: 'settled' | 'given back' | 'not taken';
  n?: number;
}

/** One unit of work from claim to settlement: claim, push, channel, settle. */
export async function deliverWork(deps: DeliverDeps, id: string): Promise<Delivered> {
  const work = await deps.leases.take(id);
  if (work === undefined) return { work: id, end: 'not taken' };
  try {
    return await deliverHeld(deps, work);
  } finally {
    deps.leases.drop(work);
  }
}

async function deliverHeld(deps: DeliverDeps, work: HeldWork): Promise<Delivered> {
  const readAt = work.view === undefined ? performance.now() : work.claimedAt;
  const push = work.view ?? (await deps.readPush(work.push));
  if (push === undefined) return { work: work.id, end: 'not taken' };
  const tally = createTally(deps, push, work);
  for (const position of await deps.receivedBefore(work)) tally.end(position, OUTCOMES.delivered);
  if (work.work.fallback) await leaveOutReached(deps, push, tally);
  if (push.collapse !== undefined) {
    const newer = await deps.newerRecipients(push, tally.tokens);
    for (const [position, token] of tally.tokens.entries()) {
      if (newer.has(token)) tally.end(position, OUTCOMES.superseded);
    }
  }
  const rest = await tryChannel(deps, { push, readAt }, work, tally);
  if (rest !== undefined) {
    await deps.giveBack(work, rest.afterMs, tally.received());
    return { work: work.id, end: 'given back', n: work.work.n };
  }
  const settlement = tally.settlement();
  await deps.arrangeFallBack(push, work, tally.tokens, settlement.outcomes);
  await deps.settle(push, settlement, work);
  return { work: work.id, end: 'settled', n: work.work.n };
}

/** Who has acknowledged meanwhile, or got a newer push of the collapse key, needs no second way. */
async function leaveOutReached(deps: DeliverDeps, push: SendingView, tally: Tally): Promise<void> {
  const open = [...tally.open];
  const owed = await deps.stillOwed(
    push,
    open.map((position) => tally.tokens[position] ?? ''),
  );
  for (const position of open) {
    if (!owed.has(tally.tokens[position] ?? '')) tally.end(position, OUTCOMES.superseded);
  }
}

/** Undefined when every recipient has an outcome, else when the rest is tried again. */
async function tryChannel(
  deps: DeliverDeps,
  { push, readAt }: Read,
  work: HeldWork,
  tally: Tally,
): Promise<{ afterMs: number } | undefined> {
  if (!deps.isSendable(push)) return endUnsendable(push, tally);
  const channel = deps.channels[work.work.channel];
  if (channel === undefined) {
    tally.endRest(failed('channel-not-configured'));
    return undefined;
  }
  const open = tally.open;
  const result = await channel({
    push,
    work,
    tokens: tally.tokens,
    open,
    maySend: freshness(deps, { push, readAt }, work),
    end: tally.end,
    async save(later) {
      const putOff = [...later].map(([position, { untilMs, times }]): PutOffEntry => {
        return [position, untilMs, times];
      });
      await deps.saveOutcomes({ ...tally.settlement(), later: putOff });
    },
  });
  if (open.size === 0) return undefined;
  const now = await deps.readPush(push._id);
  if (now === undefined || !deps.isSendable(now)) return endUnsendable(now ?? push, tally);
  if (result.done) return { afterMs: 0 };
  return { afterMs: result.retryAfterMs };
}

/** Expired: nothing more is sent. Deleted: its end closes the work, whatever we write here is fenced. */
function endUnsendable(push: SendingView, tally: Tally): undefined {
  tally.endRest(push.state === 'deleted' ? OUTCOMES.deleted : OUTCOMES.expired);
  return undefined;
}

/** A push, and from when on what is known of it may be out of date; by the monotonic clock. */
interface Read {
  push: SendingView;
  readAt: number;
}

function freshness(deps: DeliverDeps, read: Read, work: HeldWork): () => Promise<boolean> {
  const { push } = read;
  let current: SendingView | undefined = push;
  let { readAt } = read;
  return async () => {
    if (performance.now() - readAt > STATE_MAX_AGE_MS) {
      const before = performance.now();
      current = await deps.readPush(push._id);
      readAt = before;
    }
    const mayGoOn = !deps.isStopping() && work.isSafe();
    return mayGoOn && current !== undefined && deps.isSendable(current);
  };
}

interface Tally {
  tokens: readonly string[];
  open: Set<number>;
  end: Delivery['end'];
  endRest(outcome: number): void;
  received(): number[];
  settlement(): Settlement;
}

/** Outcomes and times of one unit of work while it is worked. */
function createTally(deps: Pick<DeliverDeps, 'now'>, push: SendingView, work: HeldWork): Tally {
  const tokens = splitTokens(work.work.tokens);
  const outcomes = new Uint8Array(tokens.length);
  const ms = new Uint32Array(tokens.length);
  const open = new Set<number>(tokens.keys());
  const startedAt = (push.dueAt ?? push.acceptedAt).getTime();
  const end: Tally['end'] = (position, outcome) => {
    if (!open.delete(position)) return;
    outcomes[position] = outcome;
    if (outcome === OUTCOMES.delivered) ms[position] = Math.max(1, deps.now() - startedAt);
  };
  const before = bytesOf(work.work.outcomes);
  for (const position of tokens.keys()) {
    const known = hasBit(work.work.got ?? {}, position) ? OUTCOMES.delivered : before[position];
    if (known === undefined || known === OUTCOMES.owed) continue;
    open.delete(position);
    outcomes[position] = known;
  }
  return {
    tokens,
    open,
    end,
    endRest: (outcome) => {
      for (const position of [...open]) end(position, outcome);
    },
    received: () => [...outcomes.keys()].filter((at) => outcomes[at] === OUTCOMES.delivered),
    settlement: () => ({ id: work.id, claim: work.claim, outcomes, ms }),
  };
}
