import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import type { Stack } from '../support/stack.ts';
import { fuzzMqtt } from './fuzz-mqtt.ts';
import { watchStack } from './watch-stack.ts';

/** The same packets each time; `npm run fuzz` sends others. */
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? 1);
const STREAMS = 1_000;

let stack: Stack;
beforeAll(async () => {
  stack = await startStackWithoutLimits();
});
afterAll(() => stack?.stop());

test(`${STREAMS} random streams end no gateway and disturb no other device (seed ${SEED})`, async () => {
  const watch = watchStack(stack, [stack.dev.apiKey]);
  const { received, violations, secrets } = await fuzzMqtt(stack, { streams: STREAMS, seed: SEED });
  expect(violations).toEqual([]);
  expect(received).toBe(10);
  expect(watch.findViolations(secrets)).toEqual([]);
});
