import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createAccessTokens } from '../../src/channels/fcm/access-token.ts';
import {
  FCM_ORIGIN,
  openFirebaseMessaging,
  replaceHttpClient,
} from '../../src/channels/fcm/firebase-messaging.ts';
import { createHttpPool } from '../../src/channels/fcm/http-pool.ts';
import { type ProviderSandbox, startProviderSandbox } from '../provider-sandbox.ts';

let sandbox: ProviderSandbox;
beforeAll(async () => {
  sandbox = await startProviderSandbox();
});
afterAll(() => sandbox?.stop());

test.each([
  [{}],
  [{ messagingRequestHandler: {} }],
  [{ messagingRequestHandler: { httpClient: {} } }],
  [{ messagingRequestHandler: { httpClient: { send: 'by mail' } } }],
])('changed internals of the library are reported: %j', (messaging) => {
  const unusedClient = { send: () => Promise.reject(new Error('the client is not used')) };
  expect(() => replaceHttpClient(messaging, unusedClient)).toThrow('firebase-admin has changed');
});

test('a message without a response in time differs from one whose connection was lost', async () => {
  const { gateway, projectId } = sandbox.fcm;
  const pool = createHttpPool({
    origin: FCM_ORIGIN,
    maxConnections: 2,
    deadlineMs: 1_000,
    gateway,
  });
  const tokens = createAccessTokens(sandbox.fcm);
  const messaging = openFirebaseMessaging(projectId, tokens, pool);
  await sandbox.script('fcm', 'slow', { do: 'hang' });
  await sandbox.script('fcm', 'lost', { do: 'drop' });
  const send = (token: string) => messaging.send({ token }, () => true);
  const responses = await Promise.all([send('slow'), send('lost')]);
  await Promise.all([messaging.close(), tokens.close(), pool.close()]);
  expect(responses.map(({ kind }) => kind)).toEqual(['timeout', 'no-response']);
});
