import { expect, test } from '@jest/globals';
import { type FcmAnswer, fcmOutcome, isTokenRefused } from '../../src/channels/fcm/outcome.ts';
import { fcmError, googleError } from './errors.ts';

const rejected = (reason: string) => ({ kind: 'rejected', reason });
const REFUSED = { kind: 'refused' };
const UNWELL = { kind: 'retry', scope: 'line' };
const GONE = { kind: 'gone', flag: 'uninstalled' };
const TOKEN_VIOLATION = { fieldViolations: [{ field: 'message.token' }] };
const BAD_TOKEN = 'The registration token is not a valid FCM registration token';

function answered(status: number, body: unknown): FcmAnswer {
  return { kind: 'answered', status, body };
}

test('an accepted message is sent', () => {
  expect(fcmOutcome({ kind: 'accepted' })).toEqual({ kind: 'sent' });
});

test.each([
  [404, fcmError('NOT_FOUND', '', 'UNREGISTERED'), GONE],
  [403, fcmError('PERMISSION_DENIED', '', 'SENDER_ID_MISMATCH'), rejected('wrong-credential')],
  [
    400,
    fcmError('INVALID_ARGUMENT', BAD_TOKEN, 'INVALID_ARGUMENT'),
    rejected('bad-provider-address'),
  ],
  [
    400,
    fcmError(
      'INVALID_ARGUMENT',
      'Request contains an invalid argument.',
      'INVALID_ARGUMENT',
      TOKEN_VIOLATION,
    ),
    rejected('bad-provider-address'),
  ],
  [
    400,
    fcmError('INVALID_ARGUMENT', 'Android message is too big', 'INVALID_ARGUMENT'),
    rejected('payload-too-large'),
  ],
  [400, fcmError('INVALID_ARGUMENT', '', 'INVALID_ARGUMENT'), rejected('rejected-by-provider')],
  [400, googleError('INVALID_ARGUMENT', 'Invalid JSON payload'), rejected('rejected-by-provider')],
  [429, fcmError('RESOURCE_EXHAUSTED', '', 'QUOTA_EXCEEDED'), UNWELL],
  [503, fcmError('UNAVAILABLE', '', 'UNAVAILABLE'), UNWELL],
  [500, fcmError('INTERNAL', '', 'INTERNAL'), UNWELL],
  [401, fcmError('UNAUTHENTICATED', '', 'THIRD_PARTY_AUTH_ERROR'), REFUSED],
  [401, googleError('UNAUTHENTICATED'), REFUSED],
  [403, googleError('PERMISSION_DENIED'), REFUSED],
  [404, googleError('NOT_FOUND'), REFUSED],
  [429, googleError('RESOURCE_EXHAUSTED'), UNWELL],
  [504, googleError('DEADLINE_EXCEEDED'), UNWELL],
  [409, googleError('ABORTED'), rejected('rejected-by-provider')],
  [502, '<html>', UNWELL],
  [404, '<html>', UNWELL],
  [403, '<html>', REFUSED],
  [302, '', UNWELL],
  [200, '<html>', UNWELL],
])('%d %j is %j', (status, body, attempt) => {
  expect(fcmOutcome(answered(status, body))).toMatchObject(attempt);
});

test.each([
  [400, { error: 'invalid_grant' }, REFUSED],
  [401, { error: 'invalid_client' }, REFUSED],
  [403, { error: 'unauthorized_client' }, REFUSED],
  [429, { error: 'rate_limited' }, UNWELL],
  [400, { error: 'temporarily_unavailable' }, UNWELL],
  [500, { error: 'server_error' }, UNWELL],
  [503, '', UNWELL],
  [404, '<html>', UNWELL],
  [200, '<html>', UNWELL],
])('the token server’s %d %j is %j', (status, body, attempt) => {
  expect(fcmOutcome({ kind: 'no-token', status, body })).toMatchObject(attempt);
});

test.each([
  ['answered', 503, fcmError('UNAVAILABLE', '', 'UNAVAILABLE')],
  ['answered', 429, fcmError('RESOURCE_EXHAUSTED', '', 'QUOTA_EXCEEDED')],
  ['answered', 502, ''],
  ['no-token', 503, ''],
] as const)('%s %d waits as long as it says', (kind, status, body) => {
  expect(fcmOutcome({ kind, status, body, retryAfterMs: 7_000 })).toMatchObject({
    ...UNWELL,
    afterMs: 7_000,
  });
});

test('what had no answer burns nobody', () => {
  expect(fcmOutcome({ kind: 'lost', detail: 'why' })).toEqual({ ...UNWELL, detail: 'why' });
  expect(fcmOutcome({ kind: 'unusable', detail: 'why' })).toEqual({ ...REFUSED, detail: 'why' });
});

test('a refused access token is told from a refused key of a third party', () => {
  expect(isTokenRefused(answered(401, googleError('UNAUTHENTICATED')))).toBe(true);
  const thirdParty = fcmError('UNAUTHENTICATED', '', 'THIRD_PARTY_AUTH_ERROR');
  expect(isTokenRefused(answered(401, thirdParty))).toBe(false);
  expect(isTokenRefused(answered(403, googleError('PERMISSION_DENIED')))).toBe(false);
});
