import { ApiError } from '@carillon/core/api-error';
import type { TickingClock } from '../http/deadlines.ts';
import { createWaitingRequests } from '../http/waiting-requests.ts';

/** Large pushes that are accepted at once, each of another app. */
const MAX_TURNS = 2;
/** Maximum length of the bodies of all large pushes that wait: with what is parsed of them they take some times as much. */
const MAX_WAITING_CHARS = 32 * 1024 * 1024;
/** Tokens that a busy machine resolves and stores in a second. */
export const TOKENS_PER_SECOND = 20_000;

/** A request to push to more tokens than a batch has. */
interface LargePush {
  /** The app. */
  owner: string;
  tokens: number;
  /** Length of the body. */
  chars: number;
}

/**
 * Creates the turns of the large pushes of a process. Accepting one takes MongoDB and this process up to seconds, so each
 * app has one at a time, and few apps at once; the others wait, and the apps take turns.
 */
export function createLargePushes(clock?: TickingClock) {
  const waiting = createWaitingRequests<LargePush>(clock);
  const inProgress = new Map<string, LargePush>();
  /** Those that wait. */
  const held = new Set<LargePush>();
  const ended = new WeakSet<LargePush>();

  function take(push: LargePush): boolean {
    if (inProgress.size >= MAX_TURNS || inProgress.has(push.owner)) return false;
    inProgress.set(push.owner, push);
    return true;
  }

  /** Lists the pushes whose turn comes before that of another push of the app. */
  function listBefore(owner: string): LargePush[] {
    const own = inProgress.get(owner);
    return [...(own === undefined ? inProgress.values() : [own]), ...waiting.listOf(owner)];
  }

  /** Refuses the newest pushes of the apps that hold the most, so that no app keeps others from waiting. */
  function makeRoom(): void {
    for (;;) {
      const charsOf = new Map<string, number>();
      for (const { owner, chars } of held) charsOf.set(owner, (charsOf.get(owner) ?? 0) + chars);
      const [[largest] = ['']] = [...charsOf].sort(([, a], [, b]) => b - a);
      const newest = waiting.listOf(largest).at(-1);
      const total = [...charsOf.values()].reduce((sum, chars) => sum + chars, 0);
      if (total <= MAX_WAITING_CHARS || newest === undefined) return;
      held.delete(newest);
      waiting.refuse(newest);
    }
  }

  async function waitForTurn(push: LargePush, maxWaitMs: number): Promise<void> {
    const before = listBefore(push.owner);
    const turn = waiting.wait(push, maxWaitMs);
    held.add(push);
    makeRoom();
    const hasTurn = await turn;
    held.delete(push);
    if (hasTurn) return;
    const tokensBefore = before.reduce((sum, one) => sum + (ended.has(one) ? 0 : one.tokens), 0);
    const seconds = Math.ceil(tokensBefore / TOKENS_PER_SECOND);
    throw new ApiError('SERVICE_UNAVAILABLE', undefined, Math.max(1, seconds));
  }

  /**
   * Runs the work of a large push when its turn has come.
   *
   * @throws ApiError SERVICE_UNAVAILABLE if it does not come within `maxWaitMs`, with the time that those before it may
   *   take; what `work` throws
   */
  return async function inTurn<T>(
    push: LargePush,
    maxWaitMs: number,
    work: () => Promise<T>,
  ): Promise<T> {
    if (!take(push)) await waitForTurn(push, maxWaitMs);
    try {
      return await work();
    } finally {
      ended.add(push);
      inProgress.delete(push.owner);
      waiting.giveTurns(take);
    }
  };
}
