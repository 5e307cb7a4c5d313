import { type AddressInfo, createServer } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { createFcmSecret } from '../../../../test/support/providers/sandbox.ts';
import { type AccessTokens, createAccessTokens } from '../../src/channels/fcm/access-token.ts';
import { fcm } from '../../src/channels/fcm/client.ts';
import { useProvider } from '../provider-under-test.ts';

const MINUTE = 60_000;

const provider = useProvider((credentials) => fcm.connect(createFcmSecret(credentials)));
let tokens: AccessTokens;
let now: number;
beforeEach(() => {
  now = 0;
  tokens = createAccessTokens(createFcmSecret(provider.credentials), () => now);
});
afterEach(() => tokens.close());

test('refusals discard a token once a minute', async () => {
  for (const start of [0, MINUTE, 2 * MINUTE]) {
    now = start;
    await tokens.get();
    expect(tokens.invalidate(now)).toBe(true);
    await tokens.get();
    expect(tokens.invalidate(now)).toBe(false);
    now = start + MINUTE - 1;
    expect(tokens.invalidate(now)).toBe(false);
  }
});

test('a token that was obtained after a refused request stays, and can be tried', async () => {
  const refused = await tokens.get();
  const sentAt = now;
  expect(tokens.invalidate(sentAt)).toBe(true);
  now += 1;
  const renewed = await tokens.get();
  expect(renewed).not.toBe(refused);
  expect(tokens.invalidate(sentAt)).toBe(true);
  expect(await tokens.get()).toBe(renewed);
});

test('a stored service account that names another token server is not connected to, whatever is there', async () => {
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const secret = createFcmSecret(provider.credentials);
  const { gateway: _gateway, ...withoutGateway } = secret;
  const uris = [`https://127.0.0.1:${port}/token`, `https://localhost:${port}/token`];
  for (const stored of [withoutGateway, secret]) {
    for (const tokenUri of [...uris, 'https://127.0.0.1:1/token']) {
      const others = createAccessTokens({ ...stored, tokenUri });
      await expect(others.get()).rejects.toMatchObject({
        response: { kind: 'bad-credential', detail: 'token_uri: address not allowed' },
      });
      others.close();
    }
  }
  expect(connections).toBe(0);
  await new Promise((resolve) => server.close(resolve));
});
