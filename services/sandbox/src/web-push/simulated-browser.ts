import { randomBytes } from 'node:crypto';
import type { Journal } from '../record/journal.ts';
import { decrypt, makeBrowserKeys } from './decrypt.ts';
import type { Subscriptions } from './subscriptions.ts';

/** What a browser says of a push, in Mozilla's protocol: delivered, or not to be decrypted. */
export const ACKS = { delivered: 100, undecryptable: 101 } as const;

/** A subscription as it is told to an API. */
export interface SimulatedBrowser {
  endpoint: string;
  /** p256dh, base64url. */
  key: string;
  /** base64url. */
  auth: string;
}

/**
 * Adds a browser whose private key is here, so that what it gets can be read.
 *
 * @param vapidKey the key that may push to it; undefined: every one
 */
export function addSimulatedBrowser(
  { subscriptions, journal, endpoint }: SimulatedBrowserDeps,
  vapidKey: string | undefined,
): SimulatedBrowser {
  const keys = makeBrowserKeys(randomBytes);
  const token = subscriptions.add({
    vapidKey,
    read: (body) => decrypt(body, keys),
    receive: ({ body, entry }) => {
      const isRead = body.length === 0 || entry.payload !== null;
      journal.acknowledge(entry, isRead ? ACKS.delivered : ACKS.undecryptable);
    },
  });
  return {
    endpoint: endpoint(token),
    key: keys.publicKey.toString('base64url'),
    auth: keys.auth.toString('base64url'),
  };
}

/** What adding a simulated browser needs. */
export interface SimulatedBrowserDeps {
  subscriptions: Subscriptions;
  journal: Journal;
  /** The endpoint with this last path segment. */
  endpoint(token: string): string;
}
