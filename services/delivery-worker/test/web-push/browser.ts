import { createECDH, randomBytes } from 'node:crypto';
import { decrypt } from 'http_ece';
import type { Address } from '../../src/deliver/provider.ts';

/** A browser's side of Web Push: a subscription and its keys. */
export interface Browser {
  keys: { p256dh: string; auth: string };
  /** Decrypts a body. @throws when it isn't for this browser */
  decrypt(body: Buffer): string;
  address(endpoint: string): Extract<Address, { channel: 'web-push' }>;
}

export function createBrowser(): Browser {
  const privateKey = createECDH('prime256v1');
  const p256dh = privateKey.generateKeys('base64url');
  const auth = randomBytes(16).toString('base64url');
  return {
    keys: { p256dh, auth },
    decrypt: (body) =>
      decrypt(body, { version: 'aes128gcm', privateKey, authSecret: auth }).toString(),
    address: (endpoint) => ({
      channel: 'web-push',
      address: endpoint,
      p256dh,
      auth,
      since: new Date(0),
    }),
  };
}
