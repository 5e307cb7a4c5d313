import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { openProvidersOf, type ProviderFixture } from '../support/providers/fixture.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { findTraces } from './find-traces.ts';
import { type ApiFuzzReport, fuzzApi } from './fuzz-api.ts';
import { fuzzMqtt } from './fuzz-mqtt.ts';
import { createFuzzTarget, type FuzzTarget } from './fuzz-target.ts';
import { type StackWatch, watchStack } from './watch-stack.ts';

/** The same input each time; `npm run fuzz` sends other. */
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? 1);
const PER_ROUTE = 25;
const STREAMS = 1_000;

let stack: Stack;
let fixture: ProviderFixture;
let target: FuzzTarget;
let before: Record<string, string>;
let watch: StackWatch;
let report: ApiFuzzReport;
beforeAll(async () => {
  // It is lent to no other file meanwhile, whose errors would be in the logs.
  stack = await useKillableStack();
  fixture = await openProvidersOf(stack);
  target = await createFuzzTarget(fixture);
  before = await target.readVictim();
  watch = watchStack(fixture.stack, target.unloggable);
  report = await fuzzApi(target, { perRoute: PER_ROUTE, seed: SEED });
});
afterAll(async () => {
  target?.close();
  await (fixture === undefined ? stack?.stop() : fixture.close());
});

test(`every response to a random request is as documented (seed ${SEED})`, () => {
  expect(report.violations).toEqual([]);
  // Requests of each kind were among them, so that there was something to check.
  expect(Object.keys(report.statuses)).toEqual(
    expect.arrayContaining(['200', '400', '403', '405']),
  );
});

test('nothing of a refused request is stored', async () => {
  expect(await findTraces(fixture.stack.dev, target, report)).toEqual([]);
  // It would find one that was accepted.
  const all = await findTraces(fixture.stack.dev, target, { isRefused: () => true });
  expect(all.length).toBeGreaterThan(0);
});

test('no process has ended, grown without bound, logged an unexpected error or logged a key', () => {
  expect(watch.findViolations()).toEqual([]);
});

test('data of a tenant whose key no request had is unchanged', async () => {
  expect(await target.readVictim()).toEqual(before);
});

test(`${STREAMS} random streams end no gateway and disturb no other device (seed ${SEED})`, async () => {
  const tenant = await fixture.tenant();
  const ofStreams = watchStack(fixture.stack, [tenant.apiKey]);
  const sent = await fuzzMqtt(tenant, { streams: STREAMS, seed: SEED });
  expect(sent.violations).toEqual([]);
  expect(sent.received).toBe(10);
  expect(ofStreams.findViolations(sent.secrets)).toEqual([]);
});
