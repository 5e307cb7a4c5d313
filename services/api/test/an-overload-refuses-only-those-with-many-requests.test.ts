import { ApiError } from '@carillon/core/api-error';
import { beforeEach, expect, test } from '@jest/globals';
import { createAdmission } from '../src/http/admission.ts';
import { createTestClock } from './edge.ts';

/** Requests in progress of an account that sends many. */
const MANY = 64;
/** After it requests are slow. */
const SLOW_MS = 1_100;
/** A request that waits for longer is refused. */
const MAX_WAIT_MS = 1_500;

let clock: ReturnType<typeof createTestClock>;
let admit: ReturnType<typeof createAdmission>;
/** Ends the requests in progress. */
let database: PromiseWithResolvers<string>;
beforeEach(() => {
  clock = createTestClock();
  admit = createAdmission(undefined, clock);
  database = Promise.withResolvers();
});

const wait = (): Promise<string> => database.promise;
const startMany = (account: string): Promise<string>[] =>
  Array.from({ length: MANY }, () => admit(account, 0, wait));

/** Sends a request with a large body, which does not wait for a turn. */
async function isRefused(account: string): Promise<boolean> {
  const refusal = await admit(account, 100_000, async () => undefined).catch(
    (error: unknown) => error,
  );
  if (refusal !== undefined) expect(refusal).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  return refusal instanceof ApiError;
}

test('many requests are admitted as long as they are not slow', async () => {
  const requests = startMany('busy');
  clock.pass(900);
  expect(await isRefused('busy')).toBe(false);
  database.resolve('ok');
  expect(await Promise.all(requests)).toEqual(Array.from({ length: MANY }, () => 'ok'));
});

test('an account with many slow requests is refused, and one with few requests is not', async () => {
  const requests = startMany('busy');
  clock.pass(SLOW_MS);
  const others = ['calm', 'calm', 'calm', 'calm', 'another'].map((account) =>
    admit(account, 0, wait),
  );
  expect(await isRefused('busy')).toBe(true);
  expect(await isRefused('another')).toBe(false);
  database.resolve('ok');
  await Promise.all([...requests, ...others]);
  expect(await isRefused('busy')).toBe(false);
});

test('failed requests are no longer counted', async () => {
  const requests = startMany('busy').map((request) => request.catch(String));
  clock.pass(SLOW_MS);
  database.reject(new Error('no response'));
  expect(await Promise.all(requests)).toContain('Error: no response');
  expect(await isRefused('busy')).toBe(false);
});

/** Starts many requests of an account, each of which is slow: others would raise the limit when they end. */
function overload(account: string): Promise<string>[] {
  const requests = startMany(account);
  clock.pass(SLOW_MS);
  return requests;
}

test('a small request over the limit is admitted when others have ended', async () => {
  const requests = overload('busy');
  const more = startMany('busy');
  database.resolve('ok');
  expect(await Promise.all([...requests, ...more])).toContain('ok');
});

test('a request that waits too long is refused', async () => {
  const requests = overload('busy');
  const late = expect(admit('busy', 0, wait)).rejects.toMatchObject({
    code: 'SERVICE_UNAVAILABLE',
  });
  clock.pass(MAX_WAIT_MS);
  await late;
  database.resolve('ok');
  await Promise.all(requests);
});

test('the waiting requests of an account do not keep another account from waiting', async () => {
  const requests = overload('busy');
  const moderate = startMany('moderate');
  const waiting = Array.from({ length: 300 }, () => admit('busy', 0, wait).catch(String));
  expect(await Promise.race([...waiting, ...moderate])).toContain('unavailable');
  database.resolve('ok');
  await Promise.all([...requests, ...moderate]);
  expect((await Promise.all(waiting)).filter((result) => result !== 'ok')).toHaveLength(300 - 256);
});

test('of too many waiting requests of an account the oldest is refused', async () => {
  const requests = overload('busy');
  const waiting = Array.from({ length: 257 }, () => admit('busy', 0, wait).catch(String));
  expect(await Promise.race(waiting)).toContain('unavailable');
  database.resolve('ok');
  await Promise.all(requests);
  const [oldest, ...newer] = await Promise.all(waiting);
  expect(oldest).toContain('unavailable');
  expect(new Set(newer)).toEqual(new Set(['ok']));
});

test('accounts that wait take turns', async () => {
  const requests = overload('busy');
  const order: string[] = [];
  const record = (account: string) => admit(account, 0, async () => void order.push(account));
  // As many as the account may have in progress.
  const others = Array.from({ length: MANY / 4 }, () => admit('another', 0, wait));
  const waiting = ['busy', 'busy', 'busy', 'another'].map(record);
  database.resolve('ok');
  await Promise.all([...requests, ...others, ...waiting]);
  expect(order).toEqual(['busy', 'another', 'busy', 'busy']);
});
