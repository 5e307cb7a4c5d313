import { ApiError } from '@carillon/core/api-error';
import { beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createAdmission } from '../src/http/admission.ts';

/** Requests in progress of an account that sends many. */
const MANY = 64;

let admit: ReturnType<typeof createAdmission>;
/** Ends the requests in progress. */
let database: PromiseWithResolvers<string>;
beforeEach(() => {
  admit = createAdmission();
  database = Promise.withResolvers();
});

const wait = (): Promise<string> => database.promise;
const startMany = (account: string): Promise<string>[] =>
  Array.from({ length: MANY }, () => admit(account, wait));

/** Sends a request; it waits for the database, or is refused. */
async function isRefused(account: string): Promise<boolean> {
  const refusal = await admit(account, async () => undefined).catch((error: unknown) => error);
  if (refusal !== undefined) expect(refusal).toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  return refusal instanceof ApiError;
}

test('many requests are admitted as long as they are not slow', async () => {
  const requests = startMany('busy');
  expect(await isRefused('busy')).toBe(false);
  database.resolve('ok');
  expect(await Promise.all(requests)).toEqual(Array.from({ length: MANY }, () => 'ok'));
});

test('while many are slow, their account is refused, and one with few requests is not', async () => {
  const requests = startMany('busy');
  await until(() => isRefused('busy'));
  const others = ['calm', 'calm', 'calm', 'calm', 'another'].map((account) => admit(account, wait));
  expect(await isRefused('busy')).toBe(true);
  expect(await isRefused('another')).toBe(false);
  database.resolve('ok');
  await Promise.all([...requests, ...others]);
  expect(await isRefused('busy')).toBe(false);
});

test('requests that have failed count no more', async () => {
  const requests = startMany('busy').map((request) => request.catch(String));
  await until(() => isRefused('busy'));
  database.reject(new Error('no response'));
  expect(await Promise.all(requests)).toContain('Error: no response');
  expect(await isRefused('busy')).toBe(false);
});
