import { connect } from 'node:net';
import { describeError } from './admin-error.ts';

/** Maximum wait for a server to accept a connection. */
const CONNECT_LIMIT_MS = 5_000;
/** Maximum wait for an answer. */
export const ANSWER_LIMIT_MS = 8_000;
/** Time from which on an answer is called slow. */
const SLOW_MS = 1_000;
const TICK_MS = 50;
/** Maximum time that counts between two ticks: for the rest of it this process was busy, and read no answer. */
const COUNTED_PER_TICK_MS = 4 * TICK_MS;

/** Where a server listens. */
export interface ServerAddress {
  host: string;
  port: number;
}

/** A server's answer, and a remark about it for the finding: empty unless the answer was slow. */
export interface Answer<T> {
  answer: T;
  slow: string;
}

/** The wait for a server's answers. */
export interface Wait {
  /** Is aborted at the limit: what was opened must end then. */
  signal: AbortSignal;
  /** Reports an answer before the last one: the limit counts anew. */
  answered: () => void;
}

/**
 * Asks a server, and tells one that is slow from one that can't be reached. A connection of its own shows whether the
 * server accepts any; only then the question is asked, and its limit counts from there. Time in which this process was busy
 * does not count.
 *
 * @param addresses of which one has to accept a connection; without any the question alone decides
 * @throws Error that says whether the server accepts connections; any error of `ask`
 */
export async function awaitAnswer<T>(
  server: string,
  addresses: readonly ServerAddress[],
  ask: (wait: Wait) => Promise<T>,
): Promise<Answer<T>> {
  if (addresses.length > 0) await requireConnection(server, addresses);
  const noAnswer = () => new Error(describeSilence(server));
  const { result, longestMs } = await limit(ANSWER_LIMIT_MS, noAnswer, ask);
  return { answer: result, slow: describeSlow(longestMs) };
}

/** Describes a server that has not answered within the limit. */
export function describeSilence(server: string): string {
  return `${server} accepts connections but has not answered within ${ANSWER_LIMIT_MS / 1_000} s`;
}

/**
 * Connects to one of the addresses, and closes the connection.
 *
 * @throws Error if none accepts a connection
 */
export async function requireConnection(
  server: string,
  addresses: readonly ServerAddress[],
): Promise<void> {
  const late = () => new Error(`no connection within ${CONNECT_LIMIT_MS / 1_000} s`);
  try {
    await limit(CONNECT_LIMIT_MS, late, ({ signal }) =>
      Promise.any(addresses.map((address) => reach(address, signal))),
    );
  } catch (error) {
    const cause = error instanceof AggregateError ? error.errors[0] : error;
    throw new Error(`${server} can't be reached: ${describeError(cause)}`);
  }
}

function reach(address: ServerAddress, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect({ ...address, signal });
  socket.once('connect', resolve);
  socket.on('error', reject);
  return promise.finally(() => socket.destroy());
}

function describeSlow(ms: number): string {
  return ms < SLOW_MS ? '' : `slow: answered after ${(ms / 1_000).toFixed(1)} s; `;
}

/** Runs a task within a time in which this process was able to read its result. */
async function limit<T>(
  limitMs: number,
  late: () => Error,
  run: (wait: Wait) => Promise<T>,
): Promise<{ result: T; longestMs: number }> {
  const abort = new AbortController();
  const expired = Promise.withResolvers<never>();
  let [waitedMs, longestMs] = [0, 0];
  let tickedAt = performance.now();
  const count = (): void => {
    const now = performance.now();
    waitedMs += Math.min(now - tickedAt, COUNTED_PER_TICK_MS);
    tickedAt = now;
  };
  const answered = (): void => {
    count();
    longestMs = Math.max(longestMs, waitedMs);
    waitedMs = 0;
  };
  const timer = setInterval(() => {
    count();
    if (waitedMs >= limitMs) expired.reject(late());
  }, TICK_MS);
  try {
    const result = await Promise.race([run({ signal: abort.signal, answered }), expired.promise]);
    answered();
    return { result, longestMs };
  } finally {
    clearInterval(timer);
    abort.abort();
  }
}
