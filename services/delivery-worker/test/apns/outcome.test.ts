import { expect, test } from '@jest/globals';
import { apnsOutcome } from '../../src/channels/apns/outcome.ts';

test.each([
  [400, { kind: 'rejected', reason: 'rejected-by-provider' }],
  [403, { kind: 'auth-error' }],
  [413, { kind: 'rejected', reason: 'payload-too-large' }],
  [429, { kind: 'retry', scope: 'recipient' }],
  [302, { kind: 'retry', scope: 'upstream' }],
  [500, { kind: 'retry', scope: 'upstream' }],
  [502, { kind: 'retry', scope: 'upstream' }],
  [503, { kind: 'retry', scope: 'upstream' }],
])('%d without a reason: %j', (status, attempt) => {
  expect(apnsOutcome({ kind: 'response', status })).toEqual({
    ...attempt,
    detail: `${status} without a reason`,
  });
});

test.each([
  [0, '0 minutes'],
  [60_000, '1 minute'],
  [1_199_999, '19 minutes'],
])('a token of %d ms that APNs calls expired is due to the clock', (tokenAgeMs, age) => {
  const response = { kind: 'response', status: 403, reason: 'ExpiredProviderToken' } as const;
  expect(apnsOutcome({ ...response, tokenAgeMs })).toEqual({
    kind: 'auth-error',
    detail: `403 ExpiredProviderToken for a token of ${age}: the clock of the delivery-worker is off`,
  });
});

test('a request without a response fails no recipient', () => {
  const detail = 'why';
  expect([
    apnsOutcome({ kind: 'unprocessed', detail }),
    apnsOutcome({ kind: 'no-response', detail }),
    apnsOutcome({ kind: 'bad-credential', detail }),
  ]).toEqual([
    { kind: 'retry', scope: 'connection', detail },
    { kind: 'retry', scope: 'upstream', detail },
    { kind: 'auth-error', detail },
  ]);
});
