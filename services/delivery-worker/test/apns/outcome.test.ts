import { expect, test } from '@jest/globals';
import { type ApnsAnswer, apnsOutcome } from '../../src/channels/apns/outcome.ts';
import { REASONS } from './reasons.ts';

function answered(status: number, reason?: string): ApnsAnswer {
  return { kind: 'answered', status, ...(reason !== undefined && { reason }) };
}

test('200 is sent', () => expect(apnsOutcome(answered(200))).toEqual({ kind: 'sent' }));

test.each(REASONS)('%d %s: %j', (status, reason, attempt) => {
  const detail = attempt.kind === 'gone' ? {} : { detail: reason };
  expect(apnsOutcome(answered(status, reason))).toEqual({ ...attempt, ...detail });
});

test.each([
  [400, { kind: 'rejected', reason: 'rejected-by-provider' }],
  [403, { kind: 'refused' }],
  [413, { kind: 'rejected', reason: 'payload-too-large' }],
  [429, { kind: 'retry', scope: 'recipient' }],
  [302, { kind: 'retry', scope: 'line' }],
  [500, { kind: 'retry', scope: 'line' }],
  [502, { kind: 'retry', scope: 'line' }],
  [503, { kind: 'retry', scope: 'line' }],
])('%d without a reason: %j', (status, attempt) => {
  expect(apnsOutcome(answered(status))).toEqual({ ...attempt, detail: `status ${status}` });
});

test('410 tells until when the token was good', () => {
  const timestamp = Date.UTC(2030, 0, 1);
  expect(apnsOutcome({ kind: 'answered', status: 410, reason: 'Unregistered', timestamp })).toEqual(
    { kind: 'gone', flag: 'uninstalled', lastSeenAt: new Date(timestamp) },
  );
});

test.each([
  [429, 'TooManyRequests', 'recipient'],
  [429, 'TooManyProviderTokenUpdates', 'line'],
  [503, 'ServiceUnavailable', 'line'],
] as const)('%d %s waits as long as it says', (status, reason, scope) => {
  const answer = { kind: 'answered', status, reason, retryAfterMs: 7_000 } as const;
  expect(apnsOutcome(answer)).toEqual({ kind: 'retry', scope, detail: reason, afterMs: 7_000 });
});

test('what had no answer burns nobody', () => {
  const detail = 'why';
  expect([
    apnsOutcome({ kind: 'unprocessed', detail }),
    apnsOutcome({ kind: 'lost', detail }),
    apnsOutcome({ kind: 'unusable', detail }),
  ]).toEqual([
    { kind: 'retry', scope: 'recipient', detail, afterMs: 0 },
    { kind: 'retry', scope: 'line', detail },
    { kind: 'refused', detail },
  ]);
});
