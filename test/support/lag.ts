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
      return read();
    },
  };
}
