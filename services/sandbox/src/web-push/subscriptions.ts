import { randomBytes } from 'node:crypto';
import type { RequestLogEntry } from '../request-log/request-log.ts';
import { setBounded } from '../set-bounded.ts';

const MAX_SUBSCRIPTIONS = 200_000;
const TOKEN_BYTES = 24;

/** An accepted push for a browser. */
export interface PushMessage {
  /** Message id; the browser protocol calls it the version. */
  id: string;
  body: Buffer;
  ttlSeconds: number;
  topic: string | undefined;
  entry: RequestLogEntry;
}

/** Receiver of the pushes of one endpoint. */
export interface Receiver {
  /** The VAPID key that the subscription is bound to, base64url (RFC 8292, 4). */
  vapidKey: string | undefined;
  /** Decrypts a push, if the sandbox holds the receiver's keys; undefined when that fails. */
  decrypt?(body: Buffer): string | undefined;
  receive(message: PushMessage): void;
}

/** Receivers by token, the last path segment of an endpoint. */
export type Subscriptions = ReturnType<typeof createSubscriptions>;

/** Creates an empty set. Beyond 200,000 endpoints it deletes the oldest. */
export function createSubscriptions() {
  const receiversByToken = new Map<string, Receiver | 'gone'>();
  return {
    /** @returns the token of the new endpoint */
    add: (receiver: Receiver): string => {
      const token = randomBytes(TOKEN_BYTES).toString('base64url');
      setBounded(receiversByToken, token, receiver, MAX_SUBSCRIPTIONS);
      return token;
    },
    find: (token: string): Receiver | 'gone' | undefined => receiversByToken.get(token),
    /** Ends a subscription: later pushes get status 410. @returns false when it is unknown */
    unsubscribe: (token: string): boolean => {
      if (!receiversByToken.has(token)) return false;
      receiversByToken.set(token, 'gone');
      return true;
    },
  };
}
