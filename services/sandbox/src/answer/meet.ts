import type { ProviderChannelName } from '@carillon/core/credentials';
import { isAccepted } from '../record/counters.ts';
import type { Asked, Entry, Journal } from '../record/journal.ts';
import type { Exchange } from '../wire/exchange.ts';
import { carryOut } from './carry-out.ts';
import type { Conduct } from './conduct.ts';
import type { Scripts } from './scripts.ts';
import { type Ending, endingOf, type Named, statusOf } from './step.ts';
import type { Verdict } from './verdict.ts';

/** A request that has come in whole. */
export interface Request {
  /** What scripts know it by. */
  token: string;
  /** What is remembered of it. */
  asked: Omit<Asked, 'channel' | 'status'>;
  exchange: Exchange;
  /** The real checks, made only when no script says otherwise. */
  judge(): Verdict;
  /** It was accepted. */
  onAccepted?(entry: Entry): void;
}

/** Meets a request: decides its end, remembers it, and carries the end out. */
export type Meet = (request: Request) => void;

/** What meeting requests of one channel needs. */
export interface MeetDeps {
  channel: ProviderChannelName;
  scripts: Scripts;
  journal: Journal;
  conduct: Readonly<Conduct>;
  named: Named;
}

/** Makes the one place through which all requests of a channel go. */
export function createMeet({ channel, scripts, journal, conduct, named }: MeetDeps): Meet {
  let requests = 0;

  function decide({ token, judge }: Request): Ending {
    requests += 1;
    const script = scripts.next(channel, token);
    const ending: Ending =
      script === undefined
        ? { ...judge(), act: 'answer', delayMs: 0 }
        : endingOf(script, named, judge);
    if (conduct.blackHole) ending.act = 'hang';
    else if (isTurn(conduct.dropEvery)) ending.act = 'drop';
    else if (isTurn(conduct.goawayEvery)) ending.act = 'goaway';
    ending.delayMs += conduct.delayMs;
    return ending;
  }

  function isTurn(every: number | null): boolean {
    return every !== null && requests % every === 0;
  }

  return (request) => {
    const ending = decide(request);
    const status = statusOf(ending);
    const { to, push, headers, payload, environment } = request.asked;
    const entry = journal.record({
      channel,
      to,
      push,
      status,
      headers,
      payload,
      ...(environment !== undefined && { environment }),
    });
    if (isAccepted(status)) request.onAccepted?.(entry);
    carryOut(ending, request.exchange);
  };
}
