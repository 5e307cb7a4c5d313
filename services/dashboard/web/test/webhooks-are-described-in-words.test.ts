import { expect, test } from '@jest/globals';
import { countTurnedOff, describeOff, describeResponse } from '../src/lib/webhook-words.ts';

test.each([
  [{ status: 204 }, 'Accepted (204)'],
  [{ status: 302 }, 'A redirect, which is not followed (302)'],
  [{ status: 401 }, 'Refused: does the receiver check with the newest secret? (401)'],
  [{ status: 418 }, 'Not accepted (418)'],
  [{ status: 503 }, 'The receiver has failed (503)'],
  [{ error: 'ECONNREFUSED' }, 'Nothing listens at this address (ECONNREFUSED)'],
  [
    { error: 'address not allowed' },
    'The host can’t be found, or its address is private or http: only WEBHOOK_HOSTS can allow it (address not allowed)',
  ],
  [{ error: 'HPE_INVALID_CONSTANT' }, 'HPE_INVALID_CONSTANT'],
  [{}, 'no response'],
])('%j is "%s"', (response, text) => {
  expect(describeResponse(response)).toBe(text);
});

test('only failures count as turned off', () => {
  const webhooks = [{ reason: 'gone' }, { reason: 'failing' }, { reason: 'operator' }, {}] as const;
  expect(countTurnedOff(webhooks)).toBe(2);
  expect(webhooks.map(describeOff)).toEqual([
    'Turned off: the receiver responded with 410',
    'Turned off after five days of failures',
    'Turned off by an operator or the app',
    undefined,
  ]);
});
