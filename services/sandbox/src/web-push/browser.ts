import type { Said } from './messages.ts';
import { ACKS, type SimulatedBrowserDeps } from './simulated-browser.ts';
import type { Message } from './subscriptions.ts';

const MOST_CHANNELS = 1_000;
const MOST_WAITING = 100;
const NACK = 300;

/** Says something to a browser that is connected. */
export type Say = (message: object) => void;

/** One browser of somebody, which lives on while it isn't connected. */
export interface Browser {
  uaid: string;
  /** It is connected: what it has not acknowledged goes out again. */
  came(say: Say): void;
  /** This connection is over. */
  left(say: Say): void;
  hear(said: Said): void;
  /** Its endpoints are gone. */
  end(): void;
}

interface Waiting extends Message {
  channelID: string;
  expiresAtMs: number;
}

/** Makes a browser without subscriptions. */
export function createBrowser(deps: SimulatedBrowserDeps, uaid: string): Browser {
  const { subscriptions, journal, endpoint } = deps;
  const tokens = new Map<string, string>();
  const waiting = new Map<string, Waiting>();
  let link: Say | undefined;

  function receive(channelID: string, message: Message): void {
    if (link === undefined && message.ttlSeconds === 0) return;
    const expiresAtMs = Date.now() + message.ttlSeconds * 1_000;
    // RFC 8030, 5.4: a newer message of the same topic replaces the older one.
    for (const older of waiting.values()) {
      const isSame = older.channelID === channelID && older.topic === message.topic;
      if (message.topic !== undefined && isSame) waiting.delete(older.id);
    }
    if (waiting.size >= MOST_WAITING) waiting.delete(waiting.keys().next().value ?? '');
    const stored = { ...message, channelID, expiresAtMs };
    waiting.set(message.id, stored);
    link?.(notification(stored));
  }

  function register(channelID: string, key: string | null | undefined): void {
    if (tokens.size >= MOST_CHANNELS) {
      link?.({ messageType: 'register', channelID, status: 500 });
      return;
    }
    const before = tokens.get(channelID);
    if (before !== undefined) subscriptions.end(before);
    const token = subscriptions.add({
      // The padding is the browser's; the header of a push has none.
      vapidKey: key?.replaceAll('=', ''),
      receive: (message) => receive(channelID, message),
    });
    tokens.set(channelID, token);
    link?.({ messageType: 'register', channelID, status: 200, pushEndpoint: endpoint(token) });
  }

  function unregister(channelID: string): void {
    const token = tokens.get(channelID);
    if (token !== undefined) subscriptions.end(token);
    tokens.delete(channelID);
    link?.({ messageType: 'unregister', channelID, status: 200 });
  }

  function acknowledge(version: string, code: number): void {
    const message = waiting.get(version);
    if (message === undefined) return;
    waiting.delete(version);
    journal.acknowledge(message.entry, code);
  }

  return {
    uaid,
    came: (say) => {
      link = say;
      const now = Date.now();
      for (const message of waiting.values()) {
        if (message.expiresAtMs > now) say(notification(message));
        else waiting.delete(message.id);
      }
    },
    left: (say) => {
      if (link === say) link = undefined;
    },
    hear: (said) => {
      if (said.messageType === 'register') register(said.channelID, said.key);
      if (said.messageType === 'unregister') unregister(said.channelID);
      if (said.messageType === 'nack') acknowledge(said.version, said.code ?? NACK);
      if (said.messageType !== 'ack') return;
      for (const { version, code } of said.updates) acknowledge(version, code ?? ACKS.delivered);
    },
    end: () => {
      for (const token of tokens.values()) subscriptions.end(token);
    },
  };
}

function notification({ id, channelID, ttlSeconds, body }: Waiting): object {
  const content =
    body.length === 0
      ? {}
      : { data: body.toString('base64url'), headers: { encoding: 'aes128gcm' } };
  return { messageType: 'notification', channelID, version: id, ttl: ttlSeconds, ...content };
}
