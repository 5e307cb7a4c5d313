import { retryDelayMs } from './retry.ts';

/** Failures in a row, without a success between, after which the line rests. */
const FAILURES_TO_OPEN = 5;
/** The longest rest that we choose ourselves: a provider that is back is noticed within a minute. */
const MOST_REST_MS = 60_000;
const REFUSED_REST_MS = 60_000;
const FIRST_DOUBLINGS = 1;
const LEAST_REST_MS = 500;
/** How long whoever meets a probe under way waits for what it finds. */
const PROBE_WAIT_MS = 500;

/** Leave to send one request; what came of it is told with it. */
export interface Leave {
  readonly era: number;
}

/** Whether a line to a provider works, learnt from what comes back. */
export interface Circuit {
  /** Leave to send, or the milliseconds until asking again makes sense. */
  enter(): Leave | number;
  /** It answered, whatever it said about the recipient. */
  worked(leave: Leave): void;
  /** It was unwell, or asked for a pause. */
  failed(leave: Leave, afterMs?: number): void;
  /** It refuses who we are. Returns how long the line rests, undefined if it does so already. */
  refused(leave: Leave): number | undefined;
  /** Never sent after all. */
  left(leave: Leave): void;
  /** Nothing but a probe is sent until it works again. */
  isOpen(): boolean;
}

/**
 * Closed, open for a while, then one probe: whoever comes while it is out waits. Requests of before the opening
 * come back late and say nothing new, so each leave belongs to an era, and an opening begins the next one.
 *
 * @param now milliseconds, monotonic
 * @param random from 0 to 1
 */
export function createCircuit(now: () => number, random: () => number): Circuit {
  let era = 0;
  let failures = 0;
  let doublings = FIRST_DOUBLINGS;
  let restsUntil = 0;
  let isOpen = false;
  let isProbing = false;

  function open(restMs: number): void {
    era += 1;
    isOpen = true;
    isProbing = false;
    failures = 0;
    restsUntil = Math.max(restsUntil, now() + restMs);
  }

  return {
    enter() {
      if (!isOpen) return { era };
      const restMs = restsUntil - now();
      if (restMs > 0) return restMs;
      if (isProbing) return PROBE_WAIT_MS;
      isProbing = true;
      return { era };
    },
    worked(leave) {
      if (leave.era !== era) return;
      isOpen = false;
      isProbing = false;
      failures = 0;
      doublings = FIRST_DOUBLINGS;
    },
    failed(leave, afterMs) {
      if (leave.era !== era) return;
      failures += 1;
      if (!isOpen && afterMs === undefined && failures < FAILURES_TO_OPEN) return;
      const restMs = retryDelayMs(doublings, afterMs, random);
      doublings += 1;
      open(
        afterMs === undefined ? Math.max(LEAST_REST_MS, Math.min(restMs, MOST_REST_MS)) : restMs,
      );
    },
    refused(leave) {
      if (leave.era !== era) return undefined;
      open(REFUSED_REST_MS);
      return REFUSED_REST_MS;
    },
    left(leave) {
      if (leave.era === era) isProbing = false;
    },
    isOpen: () => isOpen,
  };
}
