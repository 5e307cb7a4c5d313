import type { ClientHttp2Session } from 'node:http2';
import type { SecretOf } from '@carillon/core/credentials';
import type { AppleEnvironment } from '@carillon/store/documents';
import { Provider, type ProviderOptions } from 'node-apn';
import { type Asked, ask } from './ask.ts';
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
/** Megabytes; Node's own 10 end a session that has a few thousand requests waiting for a stream. */
const SESSION_MEMORY = 200;

/** A notification as the library makes it: its headers, but for those of a recipient, and its body. */
export interface Message {
  headers: Record<string, string>;
  body: string;
}

/** The link to one of Apple's two servers; opened by the first request, and again after it broke. */
export interface ApnsLine {
  /** Always resolves, within 10 s. */
  send(message: Message, token: string): Promise<ApnsAnswer>;
  /** To be called when no request is under way. */
  close(): Promise<void>;
}

/** The parts of node-apn's client that we put right or use; they aren't in its types. */
interface LibraryClient {
  session?: ClientHttp2Session;
  /** What `Provider.send` does for each recipient, after making the message anew. */
  write(message: Message, token: string, type: 'device', method: 'post'): Promise<Asked>;
  request(session: ClientHttp2Session, ...rest: unknown[]): Promise<unknown>;
  closeAndDestroySession(session: ClientHttp2Session | undefined): Promise<void>;
  shutdown(): Promise<void>;
}

/** A line that a certificate isn't for (expired, of the other environment) answers every request with that. */
export function openLine(secret: ApnsSecret, environment: AppleEnvironment): ApnsLine {
  const provider = createProvider(secret, environment);
  if (provider instanceof Provider) return lineOver(provider);
  return { send: async () => provider, close: async () => undefined };
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
  const retiring = new Map<ClientHttp2Session, Promise<void>>();

  function retire(session: ClientHttp2Session | undefined): void {
    if (session === undefined || session.destroyed || retiring.has(session)) return;
    const closed = closeGently(session).finally(() => retiring.delete(session));
    retiring.set(session, closed);
  }

  // The library destroys a session at GOAWAY, and with it the requests that the server is answering.
  client.closeAndDestroySession = async (session) => retire(session);
  const request = client.request.bind(client);
  // For the library a request never fails, or it would lose the status of an answer on a closing session.
  client.request = (session, ...rest) =>
    ask({
      session,
      readiness,
      // Of a session it uses no more than that.
      request: (over) => request(over as unknown as ClientHttp2Session, ...rest),
      // A dead link would take all that follow with it.
      onSilence: () => retire(session),
    });

  return {
    async send(message, token) {
      try {
        const done = await client.write(message, token, 'device', 'post');
        return done.answer;
      } catch (error) {
        // Only making a session fails here, and only for a key or certificate that TLS can't load.
        return { kind: 'unusable', detail: readFailure(error).detail };
      }
    },
    async close() {
      await client.shutdown();
      await Promise.all(retiring.values());
    },
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
  const { write, request, closeAndDestroySession, shutdown } = client ?? {};
  const parts = [write, request, closeAndDestroySession, shutdown];
  if (parts.some((part) => typeof part !== 'function')) {
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
