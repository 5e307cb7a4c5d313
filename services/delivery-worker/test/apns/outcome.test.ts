import { expect, test } from '@jest/globals';
import { type ApnsResponse, apnsOutcome } from '../../src/channels/apns/outcome.ts';
import { REASONS } from './reasons.ts';

function createResponse(status: number, reason?: string): ApnsResponse {
  return { kind: 'response', status, ...(reason !== undefined && { reason }) };
}

test('200 is sent', () => expect(apnsOutcome(createResponse(200))).toEqual({ kind: 'sent' }));

test.each(REASONS)('%d %s: %j', (status, reason, attempt) => {
  const detail = `${status} ${reason}`;
  expect(apnsOutcome(createResponse(status, reason))).toEqual({ ...attempt, detail });
});

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
  expect(apnsOutcome(createResponse(status))).toEqual({
    ...attempt,
    detail: `${status} without a reason`,
  });
});

test('410 has the time until which the token was valid', () => {
  const timestamp = Date.UTC(2030, 0, 1);
  expect(apnsOutcome({ kind: 'response', status: 410, reason: 'Unregistered', timestamp })).toEqual(
    {
      kind: 'gone',
      flag: 'uninstalled',
      detail: '410 Unregistered',
      lastSeenAt: new Date(timestamp),
    },
  );
});

test.each([
  [429, 'TooManyRequests', 'recipient'],
  [429, 'TooManyProviderTokenUpdates', 'upstream'],
  [503, 'ServiceUnavailable', 'upstream'],
] as const)('%d %s waits as long as Retry-After requires', (status, reason, scope) => {
  const response = { kind: 'response', status, reason, retryAfterMs: 7_000 } as const;
  const detail = `${status} ${reason}`;
  expect(apnsOutcome(response)).toEqual({ kind: 'retry', scope, detail, afterMs: 7_000 });
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
