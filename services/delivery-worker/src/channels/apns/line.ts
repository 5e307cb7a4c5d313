import type { ClientHttp2Session } from 'node:http2';
import type { SecretOf } from '@carillon/core/credentials';
import type { AppleEnvironment } from '@carillon/store/documents';
import { Provider, type ProviderOptions } from 'node-apn';
import { ask } from './ask.ts';
import { readFailure } from './failure.ts';
import type { ApnsAnswer } from './outcome.ts';
import { createReadiness } from './readiness.ts';

export type ApnsSecret = SecretOf<'apns-token'> | SecretOf<'apns-certificate'>;

const HOSTS: Record<AppleEnvironment, string> = {
  production: 'api.push.apple.com',
  development: 'api.sandbox.push.apple.com',
};
const APNS_PORT = 443;
/** How long a link that is being closed may go on with what it carries. */
const RETIRE_MS = 10_000;
/** Apple wants a provider token replaced within an hour. */
const TOKEN_SECONDS = 3_300;
/** Megabytes; Node's own 10 end a session that has a few thousand requests waiting for a stream. */
const SESSION_MEMORY = 200;

/** How the headers of every request begin; the authority, and the path, which each has for itself, come next. */
const START = [':method', 'POST', ':scheme', 'https', ':authority'];
const PATH_AT = START.length + 2;

/** A notification as the library makes it: its headers, but for those of a recipient, and its body. */
export interface Message {
  /** Names and values in turns. */
  headers: readonly string[];
  body: string;
}

/** The link to one of Apple's two servers; opened by the first request, and again after it broke. */
export interface ApnsLine {
  /** Always resolves, within 10 s. */
  send(message: Message, address: string): Promise<ApnsAnswer>;
  /** Which provider token requests bear now. */
  tokenInUse(): number;
  /** Signs a new provider token, unless that one has been replaced already. */
  replaceToken(refused: number): void;
  /** To be called when no request is under way. */
  close(): Promise<void>;
}

/** The library's provider token. */
interface ProviderToken {
  current: string;
  generation: number;
  isExpired(afterSeconds: number): boolean;
  /** Signs a new one, if this generation is still the current one. */
  regenerate(generation: number): void;
}

/** The parts of node-apn's client that we put right or use; they aren't in its types. */
interface LibraryClient {
  config: { address: string; token: ProviderToken | null };
  session?: ClientHttp2Session;
  /** Makes the session, once for all who ask meanwhile. */
  connect(): Promise<void>;
  closeAndDestroySession(session: ClientHttp2Session | undefined): Promise<void>;
  shutdown(): Promise<void>;
}

/** A line that a certificate isn't for (expired, of the other environment) answers every request with that. */
export function openLine(secret: ApnsSecret, environment: AppleEnvironment): ApnsLine {
  const provider = createProvider(secret, environment);
  if (provider instanceof Provider) return lineOver(provider);
  return {
    send: async () => provider,
    tokenInUse: () => 0,
    replaceToken: () => undefined,
    close: async () => undefined,
  };
}

function createProvider(secret: ApnsSecret, environment: AppleEnvironment): Provider | ApnsAnswer {
  try {
    return new Provider(optionsOf(secret, environment));
  } catch (error) {
    return { kind: 'unusable', detail: readFailure(error).detail };
  }
}

function lineOver(provider: Provider): ApnsLine {
  const client = clientOf(provider);
  const readiness = createReadiness();
  const headersOf = createHeaders(client.config);
  const retiring = new Map<ClientHttp2Session, Promise<void>>();

  function retire(session: ClientHttp2Session | undefined): void {
    if (session === undefined || session.destroyed || retiring.has(session)) return;
    const closed = closeGently(session).finally(() => retiring.delete(session));
    retiring.set(session, closed);
  }

  // The library destroys a session at GOAWAY, and with it the requests that the server is answering.
  client.closeAndDestroySession = async (session) => retire(session);

  function askOver(
    session: ClientHttp2Session,
    message: Message,
    address: string,
  ): Promise<ApnsAnswer> {
    const headers = headersOf(message, address);
    // A dead link would take all that follow with it.
    return ask({ session, readiness, headers, body: message.body, onSilence: retire });
  }

  async function askOverNew(message: Message, address: string): Promise<ApnsAnswer> {
    try {
      await client.connect();
    } catch (error) {
      // Only for a key or certificate that TLS can't load.
      return { kind: 'unusable', detail: readFailure(error).detail };
    }
    if (client.session === undefined) throw new Error('node-apn made no session');
    return askOver(client.session, message, address);
  }

  return {
    send(message, address) {
      const { session } = client;
      const isThere = session !== undefined && !session.closed && !session.destroyed;
      return isThere ? askOver(session, message, address) : askOverNew(message, address);
    },
    tokenInUse: () => client.config.token?.generation ?? 0,
    replaceToken(refused) {
      client.config.token?.regenerate(refused);
    },
    async close() {
      await client.shutdown();
      await Promise.all(retiring.values());
    },
  };
}

/** Makes what gives the headers of a request; most of them are the same as those of the request before. */
function createHeaders({ address: authority, token }: LibraryClient['config']) {
  let last: { message?: Message; generation?: number | undefined } = {};
  let common: string[] = [];

  return (message: Message, address: string): string[] => {
    if (token?.isExpired(TOKEN_SECONDS)) token.regenerate(token.generation);
    if (message !== last.message || token?.generation !== last.generation) {
      const authorization = token === null ? [] : ['authorization', `bearer ${token.current}`];
      common = [...START, authority, ':path', '', ...message.headers, ...authorization];
      last = { message, generation: token?.generation };
    }
    const headers = common.slice();
    headers[PATH_AT] = `/3/device/${address}`;
    return headers;
  };
}

function closeGently(session: ClientHttp2Session): Promise<void> {
  return new Promise((resolve) => {
    const tooLong = setTimeout(() => session.destroy(), RETIRE_MS);
    session.once('close', () => {
      clearTimeout(tooLong);
      resolve();
    });
    if (!session.closed) session.close();
  });
}

function clientOf(provider: Provider): LibraryClient {
  const { client } = provider as unknown as { client?: Partial<LibraryClient> };
  const { config, connect, closeAndDestroySession, shutdown } = client ?? {};
  const isKnown =
    [connect, closeAndDestroySession, shutdown].every((part) => typeof part === 'function') &&
    typeof config?.address === 'string' &&
    (config.token === null || typeof config.token?.regenerate === 'function');
  if (!isKnown) {
    throw new Error('node-apn has changed its client: check what channels/apns/line.ts puts right');
  }
  return client as LibraryClient;
}

function optionsOf(secret: ApnsSecret, environment: AppleEnvironment): ProviderOptions {
  const { gateway } = secret;
  const options: ProviderOptions & { maxSessionMemory: number } = {
    address: gateway?.host ?? HOSTS[environment],
    port: gateway?.port ?? APNS_PORT,
    // Its own retries come without any pause.
    connectionRetryLimit: 0,
    requestTimeout: 0,
    maxSessionMemory: SESSION_MEMORY,
    ...(gateway?.ca !== undefined && { ca: [Buffer.from(gateway.ca)] }),
  };
  if (secret.kind === 'apns-token') {
    const { keyId, teamId } = secret;
    return { ...options, token: { key: Buffer.from(secret.key), keyId, teamId } };
  }
  return { ...options, cert: Buffer.from(secret.certificate), key: Buffer.from(secret.key) };
}
