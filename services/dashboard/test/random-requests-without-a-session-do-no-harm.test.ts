import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { fuzzConsole } from '../../../test/fuzz/fuzz-console.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

/** The same requests each time, unless the environment has another seed. */
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? 1);
/** Requests to each route. */
const PER_ROUTE = Number(process.env.CARILLON_FUZZ_PER_ROUTE ?? 50);

let started: ConsoleUnderTest;
let owner: Browser;
beforeAll(async () => {
  started = await startConsole({ TRUST_PROXY: '1' });
  owner = await setUpOwner(started);
});
afterAll(() => started.stop());

test(`every response is JSON without a 5xx, and nothing is changed (seed ${SEED})`, async () => {
  const readAll = async () => ({
    operators: (await owner.get('/api/operators')).body,
    accounts: (await owner.get('/api/accounts')).body,
  });
  const before = await readAll();
  const { statuses, violations } = await fuzzConsole(started.url, {
    perRoute: PER_ROUTE,
    seed: SEED,
  });
  expect(violations).toEqual([]);
  // Requests of each kind were among them, so that there was something to check.
  expect(Object.keys(statuses)).toEqual(
    expect.arrayContaining(['200', '400', '401', '404', '413']),
  );
  expect(await readAll()).toEqual(before);
}, 900_000);
