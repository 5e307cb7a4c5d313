/** Recipients with trouble that are remembered for an upstream; the oldest is forgotten first. */
const MAX_TROUBLED = 200;
/** Time after which a recipient's trouble is forgotten: as long as the longest backoff. */
const TROUBLE_MS = 600_000;

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
  /** A request to another recipient that was sent later was accepted: the trouble is the recipient's own. */
  isOwn: boolean;
  /** Refusals, each after others had been accepted since the one before. */
  rounds: number;
  retryAfterMs: number;
  /** Nothing is sent to the recipient until then. */
  restsUntil: number;
  at: number;
}

/**
 * Creates an empty memory of recipients with trouble. The order of the requests decides what an answer tells, not that
 * of the answers: fast refusals say nothing about requests that were sent after them.
 *
 * @param now monotonic clock, milliseconds
 */
export function createTroubledRecipients(now: () => number) {
  const troubled = new Map<string, Trouble>();
  let lastAccepted = 0;

  const isRecent = ({ at }: Trouble): boolean => now() - at < TROUBLE_MS;

  function find(recipient: string): Trouble | undefined {
    const found = troubled.get(recipient);
    return found !== undefined && isRecent(found) ? found : undefined;
  }

  function list(isWanted: (trouble: Trouble) => boolean): Trouble[] {
    return [...troubled.values()].filter((trouble) => isRecent(trouble) && isWanted(trouble));
  }

  return {
    /** Returns a recipient's trouble, undefined if it has none. */
    find,
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
      const isContradicted = before !== undefined && before.serial < lastAccepted;
      const isNextRound = before?.isRefusal === true && serial > before.knownAfter;
      const trouble: Trouble = {
        serial,
        knownAfter: sent,
        isRefusal,
        isOwn: before?.isOwn === true || isContradicted || serial < lastAccepted,
        rounds: (before?.rounds ?? 0) + (isRefusal && isNextRound && isContradicted ? 1 : 0),
        retryAfterMs,
        restsUntil: 0,
        at: now(),
      };
      troubled.delete(recipient);
      troubled.set(recipient, trouble);
      const [oldest] = troubled.keys();
      if (troubled.size > MAX_TROUBLED && oldest !== undefined) troubled.delete(oldest);
      return trouble;
    },
    /** Records that the provider has accepted a request: its recipient has no trouble any more. */
    onAccepted({ recipient, serial }: Permit): void {
      lastAccepted = Math.max(lastAccepted, serial);
      troubled.delete(recipient);
    },
    /** Checks whether the provider has accepted a request. */
    hasAccepted: (): boolean => lastAccepted > 0,
    /** Lists the troubles that tell something about the upstream: no request that was sent later was accepted. */
    listEvidence: (): Trouble[] => list(({ isOwn, serial }) => !isOwn && serial > lastAccepted),
    /** Counts the recipients that wait because the credential was refused, unless the trouble is their own. */
    countRefused: (): number => list(({ isRefusal, isOwn }) => isRefusal && !isOwn).length,
  };
}
