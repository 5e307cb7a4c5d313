const EVERY_MS = 50;

/**
 * Measures by how many milliseconds an idle timer is late at most. A test allows three times as much beside a time that is
 * promised: the machine may be busy.
 */
export function measureLag() {
  let [lastAt, lagMs] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    lagMs = Math.max(lagMs, now - lastAt - EVERY_MS);
    lastAt = now;
  }, EVERY_MS);
  timer.unref();
  const read = () => lagMs;
  return {
    read,
    stop(): number {
      clearInterval(timer);
      lagMs = Math.max(lagMs, performance.now() - lastAt - EVERY_MS);
      return lagMs;
    },
  };
}

/**
 * Waits for a task that is promised to take no longer than `ms`.
 *
 * @throws if it took longer, also by three times the lag.
 */
export async function expectWithin<T>(ms: number, task: Promise<T>): Promise<T> {
  const [lag, begunAt] = [measureLag(), performance.now()];
  let lagMs = 0;
  const value = await task.finally(() => {
    lagMs = lag.stop();
  });
  const tookMs = performance.now() - begunAt;
  if (tookMs > ms + 3 * lagMs) throw new Error(`${tookMs} ms instead of ${ms}; lag ${lagMs} ms`);
  return value;
}
