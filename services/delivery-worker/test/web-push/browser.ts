import { createECDH, randomBytes } from 'node:crypto';
import type { SecretOf } from '@carillon/core/channels';
import { decrypt } from 'http_ece';
import webPush from 'web-push';
import type { Sandbox } from '../../../../test/support/providers/sandbox.ts';
import type { Address } from '../../src/deliver/provider.ts';

type BrowserAddress = Extract<Address, { channel: 'web-push' }>;

/** A browser's side of Web Push: a subscription and its keys. */
export interface Browser {
  keys: { p256dh: string; auth: string };
  /** Decrypts a body. @throws when it isn't for this browser */
  decrypt(body: Buffer): string;
  address(endpoint: string): BrowserAddress;
}

export function createBrowser(): Browser {
  const privateKey = createECDH('prime256v1');
  const p256dh = privateKey.generateKeys('base64url');
  const auth = randomBytes(16).toString('base64url');
  const keys = { p256dh, auth };
  return {
    keys,
    decrypt: (body) =>
      decrypt(body, { version: 'aes128gcm', privateKey, authSecret: auth }).toString(),
    address: (address) => ({ channel: 'web-push', address, ...keys, since: new Date(0) }),
  };
}

/** Creates a browser whose keys the sandbox holds. */
export async function subscribeBrowser(
  sandbox: Pick<Sandbox, 'subscribe'>,
): Promise<BrowserAddress> {
  const { endpoint: address, key: p256dh, auth } = await sandbox.subscribe();
  return { channel: 'web-push', address, p256dh, auth, since: new Date() };
}

/** Creates the secret of an app. */
export function createSecret(): SecretOf<'web-push'> {
  return { kind: 'web-push', contact: 'mailto:ops@carillon.dev', ...webPush.generateVAPIDKeys() };
}
