import { expect, test } from '@jest/globals';
import { until } from './until.ts';

test('returns the first value that is present, zero and empty text included', async () => {
  const responses = [undefined, null, false, 0];
  expect(await until(() => responses.shift(), { everyMs: 1 })).toBe(0);
  expect(await until(() => '')).toBe('');
});

test('continues after an error and names the last one at the timeout', async () => {
  const refuse = () => Promise.reject(new Error('not yet'));
  const waited = until(refuse, { timeoutMs: 20, everyMs: 1, what: 'peace' });
  await expect(waited).rejects.toMatchObject({
    message: 'not within 20 ms: peace',
    cause: { message: 'not yet' },
  });
});
