import { computeRetryDelayMs } from './retry-policy.ts';

/** Maximum recipients with trouble that are remembered for an upstream; the oldest is forgotten first. */
const MAX_TROUBLED = 200;
/**
 * Time for which a recipient's trouble is remembered. The process counts its rounds, also if others try it in between.
 */
const TROUBLE_MS = 3_600_000;
/** Rest of a recipient after a refusal, and its maximum rest after failures. All pushes of the recipient share it. */
export const REFUSED_ROUND_MS = 60_000;
/** Delay of the other pushes of a troubled recipient while one of them is in flight. */
const IN_FLIGHT_WAIT_MS = 2_000;

/** Permission to send one request to a recipient; the result is reported with it. */
export interface Permit {
  readonly recipient: string;
  /** Number of the request, from 1, in the order in which they are sent. */
  readonly serial: number;
}

/** The last answer to a recipient that did not get its push for a reason that may concern the upstream. */
export interface Trouble {
  /** Number of its request. */
  serial: number;
  /** Number of the last request that was sent before the answer was known. */
  knownAfter: number;
  /** The credential was refused. */
  isRefusal: boolean;
  /** Since the answer before, a request of another recipient was accepted: the trouble is the recipient's own. */
  isOwn: boolean;
  /** The answer before was a refusal too, and known when this request was sent. */
  isRepeated: boolean;
  /** Answers in a row. */
  times: number;
  /** Refusals, each after others had been accepted since the answer before. */
  rounds: number;
  retryAfterMs: number;
  /** Nothing is sent to the recipient until then. */
  restsUntil: number;
  /** Number of the request in flight. */
  inFlight: number | undefined;
  at: number;
}

/**
 * Creates an empty memory of recipients with trouble. The order of the requests decides, not the order of the answers:
 * fast refusals say nothing about requests that were sent after them.
 *
 * @param now monotonic clock, milliseconds
 */
export function createTroubledRecipients(now: () => number) {
  const troubled = new Map<string, Trouble>();
  /** Number of the last request that was accepted, and of the last one that was answered without trouble. */
  let lastAccepted = 0;
  let lastAnswered = 0;

  const isRecent = ({ at }: Trouble): boolean => now() - at < TROUBLE_MS;
  /** A provider may call a push invalid or a device gone before it looks at the credential. */
  const isContradicted = ({ serial, isRefusal }: Pick<Trouble, 'serial' | 'isRefusal'>): boolean =>
    serial < (isRefusal ? lastAccepted : lastAnswered);

  function find(recipient: string): Trouble | undefined {
    const found = troubled.get(recipient);
    return found !== undefined && isRecent(found) ? found : undefined;
  }

  function list(isWanted: (trouble: Trouble) => boolean): Trouble[] {
    return [...troubled.values()].filter((trouble) => isRecent(trouble) && isWanted(trouble));
  }

  /** Computes the rest of a recipient; after failures it is no longer than the delay of the push that got them. */
  function computeRestMs(times: number, isRefusal: boolean): number {
    if (isRefusal) return REFUSED_ROUND_MS;
    return Math.min(
      computeRetryDelayMs(times - 1, undefined, () => 0),
      REFUSED_ROUND_MS,
    );
  }

  const isWaiting = ({ isRefusal, restsUntil }: Trouble): boolean =>
    isRefusal && now() < restsUntil + REFUSED_ROUND_MS;

  return {
    /** Returns a recipient's trouble, undefined if it has none. */
    find,
    /** Returns the milliseconds for which a recipient with trouble gets no request. */
    restMs({ restsUntil, inFlight }: Trouble): number {
      return Math.max(0, restsUntil - now(), inFlight === undefined ? 0 : IN_FLIGHT_WAIT_MS);
    },
    /**
     * Adds an answer.
     *
     * @param sent requests so far
     */
    add(
      { recipient, serial }: Permit,
      sent: number,
      { isRefusal, retryAfterMs = 0 }: Pick<Trouble, 'isRefusal'> & { retryAfterMs?: number },
    ): Trouble {
      const before = find(recipient);
      const wasContradicted = before !== undefined && isContradicted(before);
      const wasKnown = before !== undefined && serial > before.knownAfter;
      const times = (before?.times ?? 0) + 1;
      const trouble: Trouble = {
        serial,
        knownAfter: sent,
        isRefusal,
        isOwn: wasContradicted || isContradicted({ serial, isRefusal }),
        isRepeated: wasKnown && isRefusal && before.isRefusal,
        times,
        rounds: (before?.rounds ?? 0) + (isRefusal && wasKnown && wasContradicted ? 1 : 0),
        retryAfterMs,
        restsUntil: Math.max(before?.restsUntil ?? 0, now() + computeRestMs(times, isRefusal)),
        inFlight: before?.inFlight === serial ? undefined : before?.inFlight,
        at: now(),
      };
      troubled.delete(recipient);
      troubled.set(recipient, trouble);
      const [oldest] = troubled.keys();
      if (troubled.size > MAX_TROUBLED && oldest !== undefined) troubled.delete(oldest);
      return trouble;
    },
    /**
     * Records that the provider has answered without trouble: the recipient has none any more.
     *
     * @param isAccepted the push was accepted: so was the credential
     */
    onAnswered({ recipient, serial }: Permit, isAccepted: boolean): void {
      lastAnswered = Math.max(lastAnswered, serial);
      if (isAccepted) lastAccepted = Math.max(lastAccepted, serial);
      troubled.delete(recipient);
    },
    /** Checks whether the provider has accepted a push. */
    hasAccepted: (): boolean => lastAccepted > 0,
    /** Lists the troubles that tell something about the upstream: nothing has contradicted them since. */
    listEvidence: (): Trouble[] => list((one) => !one.isOwn && !isContradicted(one)),
    /**
     * Counts the recipients that wait because the credential was refused, unless the trouble is their own. One that has
     * not been tried for a round after its rest waits no more: its push has ended.
     */
    countRefused: (): number => list((one) => isWaiting(one) && !one.isOwn).length,
    /** Checks whether a recipient waits because the credential was refused, for whatever reason. */
    hasRefused: (): boolean => list(isWaiting).length > 0,
  };
}
