/** Maximum samples of Redis's time that are kept. */
const MAX_SAMPLES = 5;

/**
 * Creates an estimate of a Redis's clock from the local monotonic clock; dispatch deadlines are in this time. Of the last
 * few samples the one with the shortest round trip counts, because it is the most accurate.
 *
 * @param server.time reads the clock (the reply of TIME)
 */
export function createRedisTime(server: { time(): Promise<readonly (number | string)[]> }) {
  let samples: { offset: number; roundTrip: number }[] = [];
  let offset = Number.NaN;
  return {
    /** Returns milliseconds since 1970 by Redis's clock; NaN before the first sample. */
    now: (): number => offset + performance.now(),
    /** Converts a time of the monotonic clock. */
    fromMonotonic: (monotonic: number): number => offset + monotonic,
    /** Takes a sample. Throws if Redis fails. */
    async sample(): Promise<void> {
      const requestedAt = performance.now();
      const serverMs = timeToMs(await server.time());
      const respondedAt = performance.now();
      const latest = {
        offset: serverMs - (requestedAt + respondedAt) / 2,
        roundTrip: respondedAt - requestedAt,
      };
      // A different server, or a clock that was set: earlier samples are invalid.
      const hasJumped = Math.abs(latest.offset - offset) > 250 + latest.roundTrip;
      samples = hasJumped ? [latest] : [latest, ...samples].slice(0, MAX_SAMPLES);
      offset = samples.reduce((best, candidate) =>
        candidate.roundTrip < best.roundTrip ? candidate : best,
      ).offset;
    },
  };
}

/** Converts the reply of TIME to milliseconds since 1970. */
export function timeToMs([seconds, micros]: readonly (number | string)[]): number {
  return Number(seconds) * 1_000 + Number(micros) / 1_000;
}
