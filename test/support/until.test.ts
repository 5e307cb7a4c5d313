import { expect, test } from '@jest/globals';
import { until } from './until.ts';

test('gives the first answer that is one, zero and empty text included', async () => {
  const responses = [undefined, null, false, 0];
  expect(await until(() => responses.shift(), { everyMs: 1 })).toBe(0);
  expect(await until(() => '')).toBe('');
});

test('goes on after an error and names the last one when the time is over', async () => {
  const refuse = () => Promise.reject(new Error('not yet'));
  const waited = until(refuse, { timeoutMs: 20, everyMs: 1, what: 'peace' });
  await expect(waited).rejects.toMatchObject({
    message: 'not within 20 ms: peace',
    cause: { message: 'not yet' },
  });
});
