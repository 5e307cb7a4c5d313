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
