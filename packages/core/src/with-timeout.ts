/** No result arrived within the timeout. */
export class TimeoutError extends Error {}

const TIMED_OUT = Symbol('timed out');

/**
 * Returns the result of a promise, unless it takes longer than `timeoutMs`; a later result or error is discarded.
 *
 * @throws TimeoutError naming `target` after the timeout; any error of the promise before it
 */
export async function withTimeout<T>(
  promise: Promise<T>,
  timeoutMs: number,
  target: string,
): Promise<T> {
  const result = await resultWithin(promise, timeoutMs, TIMED_OUT);
  if (result === TIMED_OUT) throw new TimeoutError(`${target} did not respond in time`);
  return result as T;
}

/**
 * Returns the result of a promise, or `fallback` if it takes longer than `timeoutMs`; a later result or error is
 * discarded.
 *
 * @throws any error of the promise before the timeout
 */
export async function resultWithin<T, F>(
  promise: Promise<T>,
  timeoutMs: number,
  fallback: F,
): Promise<T | F> {
  let timer: NodeJS.Timeout | undefined;
  const timedOut = new Promise<F>((resolve) => {
    // A response that arrived while the process was busy is read before the timeout takes effect (setImmediate).
    timer = setTimeout(() => setImmediate(resolve, fallback), timeoutMs);
  });
  return Promise.race([promise, timedOut]).finally(() => clearTimeout(timer));
}
