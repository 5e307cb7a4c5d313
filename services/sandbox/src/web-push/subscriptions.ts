import { randomBytes } from 'node:crypto';
import type { Entry } from '../record/journal.ts';

const MOST_SUBSCRIPTIONS = 200_000;
const TOKEN_BYTES = 24;

/** A push on its way to a browser. */
export interface Message {
  /** Its version, as browsers call it. */
  id: string;
  body: Buffer;
  ttlSeconds: number;
  topic: string | undefined;
  entry: Entry;
}

/** Where pushes for one endpoint go. */
export interface Receiver {
  /** The VAPID key that the subscription is bound to, base64url (RFC 8292, 4). */
  vapidKey: string | undefined;
  /** The text of a push, if this receiver's keys are ours; undefined when it can't be read. */
  read?(body: Buffer): string | undefined;
  receive(message: Message): void;
}

/** Who is behind which endpoint; an endpoint is known by its last path segment. */
export interface Subscriptions {
  /** @returns the new endpoint's last path segment */
  add(receiver: Receiver): string;
  find(token: string): Receiver | 'gone' | undefined;
  /** From now on pushes are answered 410. @returns whether it was there */
  end(token: string): boolean;
}

/** Makes an empty directory, which forgets its oldest endpoints beyond 200,000. */
export function createSubscriptions(): Subscriptions {
  const known = new Map<string, Receiver | 'gone'>();
  return {
    add: (receiver) => {
      const token = randomBytes(TOKEN_BYTES).toString('base64url');
      known.set(token, receiver);
      if (known.size > MOST_SUBSCRIPTIONS) known.delete(known.keys().next().value ?? '');
      return token;
    },
    find: (token) => known.get(token),
    end: (token) => {
      if (!known.has(token)) return false;
      known.set(token, 'gone');
      return true;
    },
  };
}
