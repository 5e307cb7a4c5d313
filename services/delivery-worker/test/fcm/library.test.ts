import { expect, test } from '@jest/globals';
import { replaceHttpClient } from '../../src/channels/fcm/library.ts';

test.each([
  [{}],
  [{ messagingRequestHandler: {} }],
  [{ messagingRequestHandler: { httpClient: {} } }],
  [{ messagingRequestHandler: { httpClient: { send: 'by mail' } } }],
])('a library of another shape is told, not guessed at: %j', (messaging) => {
  const nobody = { send: () => Promise.reject(new Error('nobody asks')) };
  expect(() => replaceHttpClient(messaging, nobody)).toThrow('firebase-admin has changed');
});
