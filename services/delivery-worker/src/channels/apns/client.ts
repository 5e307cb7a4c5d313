import type { ClientHttp2Session } from 'node:http2';
import type { SecretOf } from '@carillon/core/channels';
import {
  type AppleEnvironment,
  apns as descriptor,
  type PushKind,
  TOPIC_SUFFIXES,
} from '@carillon/core/channels/apns';
import { Notification, Provider, type ProviderOptions } from 'node-apn';
import type {
  Address,
  Attempt,
  MaySend,
  ProviderChannel,
  ProviderClient,
  ProviderPush,
  Send,
} from '../../deliver/provider.ts';
import { closeGracefully, createSettingsWaiter, postOverHttp2 } from '../http2.ts';
import { createInFlight } from '../in-flight.ts';
import {
  type ApnsResponse,
  apnsOutcome,
  classifyFailure,
  isExpiredToken,
  toApnsResponse,
} from './outcome.ts';
import { type ApnsMessage, encodeApns } from './payload.ts';
import {
  createProviderTokens,
  type KeyToken,
  type ProviderToken,
  type ProviderTokens,
} from './provider-token.ts';

type ApnsSecret = SecretOf<'apns-token'> | SecretOf<'apns-certificate'>;

const HOSTS: Record<AppleEnvironment, string> = {
  production: 'api.push.apple.com',
  development: 'api.sandbox.push.apple.com',
};
const APNS_PORT = 443;
/** Deadline of a request, from its start to its response, connecting included. */
export const DEADLINE_MS = 10_000;
/** Maximum size of a response. The longest of Apple has a hundred bytes. */
export const MAX_RESPONSE_BYTES = 64 * 1_024;
/**
 * Maximum memory of a session, in MB. Node's default of 10 ends a session with a few thousand requests that wait for a
 * stream.
 */
const SESSION_MEMORY_MB = 200;

/** First headers of every request; the authority and the path of the request follow. */
const HEADER_PREFIX = [':method', 'POST', ':scheme', 'https', ':authority'];
const PATH_INDEX = HEADER_PREFIX.length + 2;
const TOO_LARGE: Attempt = {
  kind: 'rejected',
  reason: 'payload-too-large',
  detail: 'over 4,096 bytes, or 5,120 of a VoIP push',
  isUnsent: true,
};
const CLOSING: Attempt = { kind: 'retry', scope: 'connection', detail: 'closing' };

/** One registry for the process: APNs limits the tokens of a team's key, whichever app or connection uses them. */
const processTokens = createProviderTokens();

/** A notification as the library encodes it: its body, and its headers but for those of a recipient. */
interface EncodedNotification {
  /** Alternating names and values. */
  headers: readonly string[];
  body: string;
}

/** One request to send. */
interface ApnsRequest {
  message: EncodedNotification;
  address: string;
  maySend: MaySend;
}

/** Connection to one of Apple's two servers; the first request opens it, and the next one after it was lost. */
interface ApnsConnection {
  /** Always resolves, within 10 s, or 20 s if the provider token had expired. */
  send(request: ApnsRequest): Promise<ApnsResponse>;
  /** To be called when no request is in flight. */
  close(): Promise<void>;
}

/** The parts of node-apn's client that we use or replace; its types lack them. */
interface LibraryClient {
  config: { address: string };
  session?: ClientHttp2Session;
  /** Creates the session; concurrent calls share it. */
  connect(): Promise<void>;
  closeAndDestroySession(session: ClientHttp2Session | undefined): Promise<void>;
  shutdown(): Promise<void>;
}

/** Methods that the library's types lack. */
interface LibraryNotification {
  headers(): Record<string, string>;
  compile(): string;
}

/** Apple Push Notification service. */
export const apns: ProviderChannel = {
  window: descriptor.provider.window,
  connect(secret) {
    if (secret.kind === 'apns-token' || secret.kind === 'apns-certificate')
      return connectApns(secret, processTokens);
    throw new Error(`a secret of ${secret.kind} is not for APNs`);
  },
};

/** Creates the client of a credential; a key's requests carry its token of this registry. */
export function connectApns(secret: ApnsSecret, tokens: ProviderTokens): ProviderClient {
  const connections = new Map<AppleEnvironment, ApnsConnection>();
  const inFlight = createInFlight();
  let closing: Promise<void> | undefined;

  function connectionTo(environment: AppleEnvironment): ApnsConnection {
    const existing = connections.get(environment);
    if (existing !== undefined) return existing;
    const connection = openConnection(secret, environment, tokens);
    connections.set(environment, connection);
    return connection;
  }

  async function close(): Promise<void> {
    await inFlight.idle();
    await Promise.all([...connections.values()].map((connection) => connection.close()));
  }

  return {
    upstreamKeyOf: (address) => (address.channel === 'apns' ? address.environment : 'production'),
    prepare(push, maySend) {
      const send = createSend(push, maySend, connectionTo);
      return (address) =>
        closing === undefined ? inFlight.track(send(address)) : Promise.resolve(CLOSING);
    },
    close() {
      closing ??= close();
      return closing;
    },
  };
}

function createSend(
  push: ProviderPush,
  maySend: MaySend,
  connectionTo: (environment: AppleEnvironment) => ApnsConnection,
): Send {
  const nowMs = Date.now();
  const messagesByKind = new Map<PushKind, ApnsMessage>();
  const notificationsByTopic = new Map<string, EncodedNotification>();

  function messageFor(kind: PushKind): ApnsMessage {
    const existing = messagesByKind.get(kind);
    if (existing !== undefined) return existing;
    const message = encodeApns(push, { nowMs, kind });
    messagesByKind.set(kind, message);
    return message;
  }

  function notificationFor(message: ApnsMessage, topic: string, kind: PushKind) {
    const key = `${kind} ${topic}`;
    const existing = notificationsByTopic.get(key);
    if (existing !== undefined) return existing;
    const notification = createNotification(message, topic);
    notificationsByTopic.set(key, notification);
    return notification;
  }

  return async (address): Promise<Attempt> => {
    if (address.channel !== 'apns') return rejectOtherChannel(address);
    const { environment, bundle, kind = 'alert' } = address;
    const message = messageFor(kind);
    if (message.isTooLarge) return TOO_LARGE;
    const connection = connectionTo(environment);
    const notification = notificationFor(message, bundle + TOPIC_SUFFIXES[kind], kind);
    const request = { message: notification, address: address.address, maySend };
    return apnsOutcome(await connection.send(request));
  };
}

/** Creates a notification; the library sends the text in `compiled` unchanged. */
function createNotification(message: ApnsMessage, topic: string): EncodedNotification {
  const { body, headers: own } = message;
  const notification = new Notification({
    compiled: body,
    topic,
    pushType: own['apns-push-type'],
    // The library leaves out what is no number, below 0, or empty.
    priority: Number(own['apns-priority'] ?? Number.NaN),
    expiry: Number(own['apns-expiration'] ?? -1),
    collapseId: own['apns-collapse-id'] ?? '',
  }) as Notification & LibraryNotification;
  const headers = Object.entries(notification.headers()).flat().map(String);
  return { headers, body: notification.compile() };
}

function rejectOtherChannel({ channel }: Address): Attempt {
  const detail = `an address of ${channel}`;
  return { kind: 'rejected', reason: 'no-provider-address', detail, isUnsent: true };
}

/** Opens a connection. With an unusable certificate (expired, of the other environment) every request fails with it. */
function openConnection(
  secret: ApnsSecret,
  environment: AppleEnvironment,
  tokens: ProviderTokens,
): ApnsConnection {
  const credential = loadCredential(secret, environment, tokens);
  if ('provider' in credential) return createConnection(credential);
  return { send: async () => credential, close: async () => undefined };
}

/** A loaded credential; with a certificate there is no token. */
interface LoadedCredential {
  provider: Provider;
  keyToken: KeyToken | undefined;
}

function loadCredential(
  secret: ApnsSecret,
  environment: AppleEnvironment,
  tokens: ProviderTokens,
): LoadedCredential | ApnsResponse {
  try {
    const provider = new Provider(createOptions(secret, environment));
    // After the library, whose errors name the fault of a key.
    return { provider, keyToken: secret.kind === 'apns-token' ? tokens.of(secret) : undefined };
  } catch (error) {
    return { kind: 'bad-credential', detail: classifyFailure(error).detail };
  }
}

function createConnection({ provider, keyToken }: LoadedCredential): ApnsConnection {
  const client = getLibraryClient(provider);
  const waitForSettings = createSettingsWaiter();
  const buildHeaders = createHeaderBuilder(client.config.address);
  const closingSessions = new Map<ClientHttp2Session, Promise<void>>();

  function retire(session: ClientHttp2Session | undefined): void {
    if (session === undefined || session.destroyed || closingSessions.has(session)) return;
    const closed = closeGracefully(session).finally(() => closingSessions.delete(session));
    closingSessions.set(session, closed);
  }

  // The library destroys a session at GOAWAY, and with it the requests that the server still responds to.
  client.closeAndDestroySession = async (session) => retire(session);

  function sendOver(
    session: ClientHttp2Session,
    { message, address, maySend }: ApnsRequest,
    token: ProviderToken | undefined,
  ): Promise<ApnsResponse> {
    const request = {
      session,
      waitForSettings,
      headers: buildHeaders(message, address, token),
      body: message.body,
      maySend,
      deadlineMs: DEADLINE_MS,
      maxResponseBytes: MAX_RESPONSE_BYTES,
      onTimeout: retire,
    };
    return postOverHttp2(request, toApnsResponse);
  }

  async function connectAndSend(
    request: ApnsRequest,
    token: ProviderToken | undefined,
  ): Promise<ApnsResponse> {
    try {
      await client.connect();
    } catch (error) {
      // Happens only for a key or certificate that TLS can't load.
      return { kind: 'bad-credential', detail: classifyFailure(error).detail };
    }
    if (client.session === undefined) throw new Error('node-apn made no session');
    return sendOver(client.session, request, token);
  }

  function sendWith(token: ProviderToken | undefined, request: ApnsRequest): Promise<ApnsResponse> {
    const { session } = client;
    const isUsable = session !== undefined && !session.closed && !session.destroyed;
    return isUsable ? sendOver(session, request, token) : connectAndSend(request, token);
  }

  return {
    send: (request) =>
      keyToken === undefined
        ? sendWith(undefined, request)
        : sendWithToken(keyToken, (token) => sendWith(token, request)),
    async close() {
      await client.shutdown();
      await Promise.all(closingSessions.values());
    },
  };
}

/** Sends with the current token, and once again with another if that one had expired. */
async function sendWithToken(
  keyToken: KeyToken,
  send: (token: ProviderToken) => Promise<ApnsResponse>,
): Promise<ApnsResponse> {
  const token = keyToken.current();
  const response = await send(token);
  if (!isExpiredToken(response)) return response;
  const successor = keyToken.replace(token);
  if (successor === undefined) return { ...response, tokenAgeMs: token.ageMs() };
  const secondResponse = await send(successor);
  if (!isExpiredToken(secondResponse)) return secondResponse;
  return { ...secondResponse, tokenAgeMs: successor.ageMs() };
}

/** Creates a builder of request headers; most are the same as in the previous request. */
function createHeaderBuilder(authority: string) {
  let lastBuilt: { message?: EncodedNotification; token?: ProviderToken | undefined } = {};
  let common: string[] = [];

  return (
    message: EncodedNotification,
    address: string,
    token: ProviderToken | undefined,
  ): string[] => {
    if (message !== lastBuilt.message || token !== lastBuilt.token) {
      const authorization = token === undefined ? [] : ['authorization', token.authorization];
      common = [...HEADER_PREFIX, authority, ':path', '', ...message.headers, ...authorization];
      lastBuilt = { message, token };
    }
    const headers = common.slice();
    headers[PATH_INDEX] = `/3/device/${address}`;
    return headers;
  };
}

function getLibraryClient(provider: Provider): LibraryClient {
  const { client } = provider as unknown as { client?: Partial<LibraryClient> };
  const { config, connect, closeAndDestroySession, shutdown } = client ?? {};
  const isCompatible =
    [connect, closeAndDestroySession, shutdown].every((method) => typeof method === 'function') &&
    typeof config?.address === 'string';
  if (!isCompatible) {
    throw new Error('node-apn has changed its client: check channels/apns/client.ts');
  }
  return client as LibraryClient;
}

function createOptions(secret: ApnsSecret, environment: AppleEnvironment): ProviderOptions {
  const { gateway } = secret;
  const options: ProviderOptions & { maxSessionMemory: number } = {
    address: gateway?.host ?? HOSTS[environment],
    port: gateway?.port ?? APNS_PORT,
    // The library retries without a pause.
    connectionRetryLimit: 0,
    requestTimeout: 0,
    maxSessionMemory: SESSION_MEMORY_MB,
    ...(gateway?.ca !== undefined && { ca: [Buffer.from(gateway.ca)] }),
  };
  if (secret.kind === 'apns-token') {
    const { keyId, teamId } = secret;
    // The library checks the key by signing a token, which is never sent; without a key it looks for certificate files.
    return { ...options, token: { key: Buffer.from(secret.key), keyId, teamId } };
  }
  return { ...options, cert: Buffer.from(secret.certificate), key: Buffer.from(secret.key) };
}
