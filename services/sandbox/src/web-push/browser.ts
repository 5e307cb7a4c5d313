import { setBounded } from '../set-bounded.ts';
import type { BrowserMessage } from './browser-messages.ts';
import { ACK_CODES, type BrowserPushService } from './simulated-browser.ts';
import type { PushMessage } from './subscriptions.ts';

const MAX_CHANNELS = 1_000;
const MAX_PENDING_MESSAGES = 100;
/** Acknowledgement code of a `nack` that has none. */
const DEFAULT_NACK_CODE = 300;

/** Sends a message to a connected browser. */
export type SendMessage = (message: object) => void;

/** State of one browser, kept while it is disconnected. */
export interface Browser {
  uaid: string;
  /** Handles a new connection: sends all unacknowledged messages again. */
  onConnect(send: SendMessage): void;
  /** Handles the end of a connection. */
  onDisconnect(send: SendMessage): void;
  handleMessage(browserMessage: BrowserMessage): void;
  /** Ends all its subscriptions. */
  unsubscribeAll(): void;
}

interface PendingMessage extends PushMessage {
  channelID: string;
  expiresAtMs: number;
}

/** Creates a browser without subscriptions. */
export function createBrowser(
  { subscriptions, requestLog, createEndpoint }: BrowserPushService,
  uaid: string,
): Browser {
  const tokens = new Map<string, string>();
  const pendingMessages = new Map<string, PendingMessage>();
  let sendToBrowser: SendMessage | undefined;

  function receive(channelID: string, message: PushMessage): void {
    if (sendToBrowser === undefined && message.ttlSeconds === 0) return;
    const expiresAtMs = Date.now() + message.ttlSeconds * 1_000;
    // RFC 8030, 5.4: a newer message of the same topic replaces the older one.
    for (const pending of pendingMessages.values()) {
      const hasSameTopic = pending.channelID === channelID && pending.topic === message.topic;
      if (message.topic !== undefined && hasSameTopic) pendingMessages.delete(pending.id);
    }
    const stored = { ...message, channelID, expiresAtMs };
    setBounded(pendingMessages, message.id, stored, MAX_PENDING_MESSAGES);
    sendToBrowser?.(notification(stored));
  }

  function register(channelID: string, key: string | null | undefined): void {
    if (tokens.size >= MAX_CHANNELS) {
      sendToBrowser?.({ messageType: 'register', channelID, status: 500 });
      return;
    }
    const previousToken = tokens.get(channelID);
    if (previousToken !== undefined) subscriptions.unsubscribe(previousToken);
    const token = subscriptions.add({
      // The browser pads the key; the Authorization header of a push does not.
      vapidKey: key?.replaceAll('=', ''),
      receive: (message) => receive(channelID, message),
    });
    tokens.set(channelID, token);
    sendToBrowser?.({
      messageType: 'register',
      channelID,
      status: 200,
      pushEndpoint: createEndpoint(token),
    });
  }

  function unregister(channelID: string): void {
    const token = tokens.get(channelID);
    if (token !== undefined) subscriptions.unsubscribe(token);
    tokens.delete(channelID);
    sendToBrowser?.({ messageType: 'unregister', channelID, status: 200 });
  }

  function acknowledge(version: string, code: number): void {
    const message = pendingMessages.get(version);
    if (message === undefined) return;
    pendingMessages.delete(version);
    requestLog.acknowledge(message.entry, code);
  }

  return {
    uaid,
    onConnect: (send) => {
      sendToBrowser = send;
      const now = Date.now();
      for (const message of pendingMessages.values()) {
        if (message.expiresAtMs > now) send(notification(message));
        else pendingMessages.delete(message.id);
      }
    },
    onDisconnect: (send) => {
      if (sendToBrowser === send) sendToBrowser = undefined;
    },
    handleMessage: (browserMessage) => {
      if (browserMessage.messageType === 'register')
        register(browserMessage.channelID, browserMessage.key);
      if (browserMessage.messageType === 'unregister') unregister(browserMessage.channelID);
      if (browserMessage.messageType === 'nack')
        acknowledge(browserMessage.version, browserMessage.code ?? DEFAULT_NACK_CODE);
      if (browserMessage.messageType !== 'ack') return;
      for (const { version, code } of browserMessage.updates)
        acknowledge(version, code ?? ACK_CODES.delivered);
    },
    unsubscribeAll: () => {
      for (const token of tokens.values()) subscriptions.unsubscribe(token);
    },
  };
}

function notification({ id, channelID, ttlSeconds, body }: PendingMessage): object {
  const content =
    body.length === 0
      ? {}
      : { data: body.toString('base64url'), headers: { encoding: 'aes128gcm' } };
  return { messageType: 'notification', channelID, version: id, ttl: ttlSeconds, ...content };
}
