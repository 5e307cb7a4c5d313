const EVERY_MS = 1_000;
const PER_JOB = 1_000;
/** What Redis doesn't take is let go: only the time of the last activity is lost. */
const MAX_WAITING = 50_000;

/** A token and milliseconds since 1970, MongoDB's time. */
export type SignOfLife = [token: string, at: number];

/** Gathers connects and disconnects and tells them once a second, for `last_active`. */
export function createSignsOfLife(
  tell: (signs: SignOfLife[]) => Promise<void>,
  now: () => number,
): { saw(token: string): void; stop(): Promise<void> } {
  let waiting: SignOfLife[] = [];

  async function flush(): Promise<void> {
    const signs = waiting;
    waiting = [];
    const jobs: Promise<void>[] = [];
    for (let at = 0; at < signs.length; at += PER_JOB)
      jobs.push(tell(signs.slice(at, at + PER_JOB)));
    await Promise.all(jobs);
  }

  const timer = setInterval(() => void flush(), EVERY_MS);
  return {
    saw(token) {
      if (waiting.length < MAX_WAITING) waiting.push([token, Math.round(now())]);
    },
    async stop() {
      clearInterval(timer);
      await flush();
    },
  };
}
