import { afterAll, beforeAll, test } from '@jest/globals';
import fc from 'fast-check';
import { removeRateLimit } from '../support/carillon.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { commandsArbitrary } from './commands.ts';
import { Model } from './model.ts';
import { createSystem, expectMatch } from './system.ts';

/** Runs of the long form: CARILLON_MODEL_RUNS=200. */
const RUNS = Number(process.env.CARILLON_MODEL_RUNS ?? 15);
const COMMANDS = 30;
/** Runs side by side: they have nothing in common but the stack, and most of a run is waiting. */
const LANES = 5;
const A_RUN_MS = 90_000;

let stack: Stack;
let mongo: TestMongo;
beforeAll(async () => {
  stack = await startStack({ env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  await removeRateLimit(stack);
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

test(
  'for any actions of devices and senders, in any order',
  async () => {
    const property = fc.asyncProperty(commandsArbitrary(COMMANDS), async (commands) => {
      const model = new Model();
      const system = createSystem(stack, mongo);
      try {
        await fc.asyncModelRun(() => ({ model, real: system }), commands);
        await expectMatch(model, system);
      } finally {
        await Promise.all([...system.devices.values()].map((device) => device.disconnect()));
      }
    });
    const lane = () =>
      fc.assert(property, { numRuns: Math.ceil(RUNS / LANES), endOnFailure: true });
    await Promise.all(Array.from({ length: LANES }, lane));
  },
  RUNS * A_RUN_MS,
);
