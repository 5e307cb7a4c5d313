import { expect, test } from '@jest/globals';
import { turnOffRetries } from '../../src/channels/fcm/library.ts';

test.each([
  [{}],
  [{ messagingRequestHandler: {} }],
  [{ messagingRequestHandler: { httpClient: {} } }],
  [{ messagingRequestHandler: { httpClient: { retry: { attempts: 4 } } } }],
])('a library of another shape is told, not guessed at: %j', (messaging) => {
  expect(() => turnOffRetries(messaging)).toThrow('firebase-admin has changed');
});
