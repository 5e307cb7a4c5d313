import { failed, OUTCOMES } from '@carillon/core/outcomes';
import type { Channel } from '@carillon/core/platforms';
import { hasBit, splitTokens } from '@carillon/core/work';
import type { SendingView } from '@carillon/store/pushes';
import type { Settlement } from '@carillon/store/work-table';
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
  /** Positions that the worker before is known to have reached. */
  receivedBefore(work: HeldWork): Promise<readonly number[]>;
  /** Tokens of the work that a newer push of its collapse key is for. */
  newerRecipients(push: SendingView, tokens: readonly string[]): Promise<ReadonlySet<string>>;
  giveBack(work: HeldWork, delayMs: number, received: readonly number[]): Promise<void>;
  settle(push: SendingView, settlement: Settlement, work: HeldWork): Promise<void>;
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
  const push = await deps.readPush(work.push);
  if (push === undefined) return { work: work.id, end: 'not taken' };
  const tally = createTally(deps, push, work);
  for (const position of await deps.receivedBefore(work)) tally.end(position, OUTCOMES.delivered);
  if (push.collapse !== undefined) {
    const newer = await deps.newerRecipients(push, tally.tokens);
    for (const [position, token] of tally.tokens.entries()) {
      if (newer.has(token)) tally.end(position, OUTCOMES.superseded);
    }
  }
  const rest = await tryChannel(deps, push, work, tally);
  if (rest !== undefined) {
    await deps.giveBack(work, rest, tally.received());
    return { work: work.id, end: 'given back', n: work.work.n };
  }
  await deps.settle(push, tally.settlement(), work);
  return { work: work.id, end: 'settled', n: work.work.n };
}

/** Undefined when every recipient has an outcome, else the milliseconds after which the rest is tried again. */
async function tryChannel(
  deps: DeliverDeps,
  push: SendingView,
  work: HeldWork,
  tally: Tally,
): Promise<number | undefined> {
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
    maySend: freshness(deps, push, work),
    end: tally.end,
  });
  if (open.size === 0) return undefined;
  const now = await deps.readPush(push._id);
  if (now === undefined || !deps.isSendable(now)) return endUnsendable(now ?? push, tally);
  return result.done ? 0 : result.retryAfterMs;
}

/** Expired: nothing more is sent. Deleted: its end closes the work, whatever we write here is fenced. */
function endUnsendable(push: SendingView, tally: Tally): undefined {
  tally.endRest(push.state === 'deleted' ? OUTCOMES.deleted : OUTCOMES.expired);
  return undefined;
}

function freshness(deps: DeliverDeps, push: SendingView, work: HeldWork): () => Promise<boolean> {
  let current: SendingView | undefined = push;
  let readAt = performance.now();
  return async () => {
    if (performance.now() - readAt > STATE_MAX_AGE_MS) {
      const before = performance.now();
      current = await deps.readPush(push._id);
      readAt = before;
    }
    return current !== undefined && deps.isSendable(current) && work.isSafe();
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
  for (const position of tokens.keys()) {
    if (!hasBit(work.work.got ?? {}, position)) continue;
    open.delete(position);
    outcomes[position] = OUTCOMES.delivered;
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
