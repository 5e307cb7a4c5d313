import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type SessionUnderTest, startSessionUnderTest } from './fuzz/gateway-session.ts';
import { readWithMqttPacket } from './fuzz/oracle.ts';
import { createRandom, createStream, splitRandomly } from './fuzz/random-streams.ts';

/** CARILLON_FUZZ_STREAMS=100000 sets a thorough run; CARILLON_FUZZ_SEED repeats a seed that failed. */
const STREAMS = Number(process.env.CARILLON_FUZZ_STREAMS ?? 5_000);
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? Date.now() % 1_000_000_000);

const DEADLINE_MS = 30_000 + STREAMS * 15;

let session: SessionUnderTest;
beforeAll(async () => {
  session = await startSessionUnderTest();
});
afterAll(() => session.stop());

test(
  `the gateway parses ${STREAMS} random streams like mqtt-packet (seed ${SEED})`,
  async () => {
    const counts: Record<string, number> = {};
    for (let n = 0; n < STREAMS; n += 1) {
      const random = createRandom(SEED + n);
      const bytes = createStream(random);
      const chunks = splitRandomly(random, bytes);
      const expected = readWithMqttPacket(chunks);
      const actual = await session.run(chunks);
      const kind =
        expected.strictness === undefined ? expected.end : `stricter: ${expected.strictness}`;
      counts[kind] = (counts[kind] ?? 0) + 1;
      const { events, end } = expected;
      const expectedTrace = { events, end: expected.strictness === undefined ? end : 'closed' };
      const at = { seed: SEED + n, bytes: bytes.toString('hex', 0, 400) };
      // A comparison with `expect` takes longer than all the rest.
      if (JSON.stringify(actual) === JSON.stringify(expectedTrace)) continue;
      expect({ ...at, ...actual }).toEqual({ ...at, ...expectedTrace });
    }
    process.stdout.write(`${JSON.stringify(counts)}\n`);
  },
  DEADLINE_MS,
);
