import { expect, test } from '@jest/globals';
import { replaceHttpClient } from '../../src/channels/fcm/firebase-messaging.ts';
import { type FcmResponse, fcmOutcome } from '../../src/channels/fcm/outcome.ts';

const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';
const rejected = (reason: string) => ({ kind: 'rejected', reason });
const AUTH_ERROR = { kind: 'auth-error' };
const UNAVAILABLE = { kind: 'retry', scope: 'upstream' };
const TOKEN_VIOLATION = { fieldViolations: [{ field: 'message.token' }] };
const BAD_TOKEN = 'The registration token is not a valid FCM registration token';

/** An error of FCM (google.rpc.Status with FcmError). */
const invalidArgument = (message: string, ...details: object[]) => {
  const error = { '@type': FCM_ERROR, errorCode: 'INVALID_ARGUMENT' };
  return { error: { status: 'INVALID_ARGUMENT', message, details: [error, ...details] } };
};
/** An error of Google's front end. */
const googleError = (status: string, message = '') => ({ error: { status, message } });
const createResponse = (status: number, body: unknown): FcmResponse => {
  return { kind: 'response', status, body };
};

test.each([
  [400, invalidArgument(BAD_TOKEN), rejected('bad-provider-address')],
  [400, invalidArgument('Not valid.', TOKEN_VIOLATION), rejected('bad-provider-address')],
  [400, invalidArgument('Android message is too big'), rejected('payload-too-large')],
  [400, googleError('INVALID_ARGUMENT', 'Invalid JSON payload'), rejected('rejected-by-provider')],
  [504, googleError('DEADLINE_EXCEEDED'), UNAVAILABLE],
  [409, googleError('ABORTED'), rejected('rejected-by-provider')],
  [403, '<html>', AUTH_ERROR],
  [302, '', UNAVAILABLE],
  [200, '<html>', UNAVAILABLE],
])('%d %j is %j', (status, body, attempt) => {
  expect(fcmOutcome(createResponse(status, body))).toMatchObject(attempt);
});

test.each([
  [400, { error: 'invalid_grant' }, AUTH_ERROR],
  [401, { error: 'invalid_client' }, AUTH_ERROR],
  [403, { error: 'unauthorized_client' }, AUTH_ERROR],
  [429, { error: 'rate_limited' }, UNAVAILABLE],
  [400, { error: 'temporarily_unavailable' }, UNAVAILABLE],
  [500, { error: 'server_error' }, UNAVAILABLE],
  [503, '', UNAVAILABLE],
  [404, '<html>', UNAVAILABLE],
  [200, '<html>', UNAVAILABLE],
])('the token server’s %d %j is %j', (status, body, attempt) => {
  expect(fcmOutcome({ kind: 'no-token', status, body })).toMatchObject(attempt);
});

test('only a message that was never sent is unsent', () => {
  expect(fcmOutcome({ kind: 'malformed', detail: 'why' })).toEqual({
    ...rejected('rejected-by-provider'),
    detail: 'why',
    isUnsent: true,
  });
  expect(fcmOutcome({ kind: 'withheld' })).toEqual({ kind: 'withheld' });
  const refused = createResponse(400, invalidArgument(''));
  expect(fcmOutcome(refused)).not.toHaveProperty('isUnsent');
});

test.each([
  [{}],
  [{ messagingRequestHandler: {} }],
  [{ messagingRequestHandler: { httpClient: {} } }],
  [{ messagingRequestHandler: { httpClient: { send: 'by mail' } } }],
])('changed internals of the library are reported: %j', (messaging) => {
  const unusedClient = { send: () => Promise.reject(new Error('the client is not used')) };
  expect(() => replaceHttpClient(messaging, unusedClient)).toThrow('firebase-admin has changed');
});
