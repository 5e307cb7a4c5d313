import { expect, test } from '@jest/globals';
import { replaceHttpClient } from '../../src/channels/fcm/firebase-messaging.ts';

test.each([
  [{}],
  [{ messagingRequestHandler: {} }],
  [{ messagingRequestHandler: { httpClient: {} } }],
  [{ messagingRequestHandler: { httpClient: { send: 'by mail' } } }],
])('changed internals of the library are reported: %j', (messaging) => {
  const unusedClient = { send: () => Promise.reject(new Error('the client is not used')) };
  expect(() => replaceHttpClient(messaging, unusedClient)).toThrow('firebase-admin has changed');
});
