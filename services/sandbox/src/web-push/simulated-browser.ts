import { randomBytes } from 'node:crypto';
import type { RequestLog } from '../request-log/request-log.ts';
import { decrypt, makeBrowserKeys } from './decrypt.ts';
import type { Subscriptions } from './subscriptions.ts';

/** Acknowledgement codes of Mozilla's protocol. */
export const ACK_CODES = { delivered: 100, undecryptable: 101 } as const;

/** A subscription in the format of the registration API. */
export interface SimulatedBrowser {
  endpoint: string;
  /** p256dh, base64url. */
  key: string;
  /** base64url. */
  auth: string;
}

/**
 * Adds a browser whose private key the sandbox holds, so that the sandbox can decrypt its pushes.
 *
 * @param vapidKey the only VAPID key that may push to it; any key may if undefined
 */
export function addSimulatedBrowser(
  { subscriptions, requestLog, createEndpoint }: BrowserPushService,
  vapidKey: string | undefined,
): SimulatedBrowser {
  const keys = makeBrowserKeys(randomBytes);
  const token = subscriptions.add({
    vapidKey,
    decrypt: (body) => decrypt(body, keys),
    receive: ({ body, entry }) => {
      const isDecrypted = body.length === 0 || entry.payload !== null;
      requestLog.acknowledge(entry, isDecrypted ? ACK_CODES.delivered : ACK_CODES.undecryptable);
    },
  });
  return {
    endpoint: createEndpoint(token),
    key: keys.publicKey.toString('base64url'),
    auth: keys.auth.toString('base64url'),
  };
}

/** The parts of the push service that browsers use. */
export interface BrowserPushService {
  subscriptions: Subscriptions;
  requestLog: RequestLog;
  /** Builds the endpoint URL of a subscription token. */
  createEndpoint(token: string): string;
}
