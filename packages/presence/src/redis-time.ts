const KEPT_SAMPLES = 5;

/** Redis's clock, followed by the local monotonic clock: deadlines of hand-overs are in this time. */
export interface RedisTime {
  /** Milliseconds since 1970 by Redis's clock; NaN before the first sample. */
  now(): number;
  /** Asks Redis once. Throws when Redis fails. */
  sample(): Promise<void>;
}

/** Follows the clock by the quickest of the last few answers; a slow answer tells little. */
export function createRedisTime(redis: {
  time(): Promise<readonly (string | number)[]>;
}): RedisTime {
  let samples: { offset: number; roundTrip: number }[] = [];
  let offset = Number.NaN;
  return {
    now: () => offset + performance.now(),
    async sample() {
      const before = performance.now();
      const [seconds, micros] = await redis.time();
      const after = performance.now();
      const serverMs = Number(seconds) * 1_000 + Number(micros) / 1_000;
      const fresh = { offset: serverMs - (before + after) / 2, roundTrip: after - before };
      // Another server, or a clock that was set: what was learnt before is wrong.
      const jumped = Math.abs(fresh.offset - offset) > 250 + fresh.roundTrip;
      samples = jumped ? [fresh] : [fresh, ...samples].slice(0, KEPT_SAMPLES);
      offset = samples.reduce((best, one) => (one.roundTrip < best.roundTrip ? one : best)).offset;
    },
  };
}
