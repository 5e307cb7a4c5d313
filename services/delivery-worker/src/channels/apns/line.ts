import { type ClientHttp2Session, type ClientHttp2Stream, constants } from 'node:http2';
import type { SecretOf } from '@carillon/core/credentials';
import type { AppleEnvironment } from '@carillon/store/documents';
import { type Notification, Provider, type ProviderOptions } from 'node-apn';
import { readFailure } from './failure.ts';
import type { ApnsAnswer } from './outcome.ts';
import { watchStream } from './watch-stream.ts';

export type ApnsSecret = SecretOf<'apns-token'> | SecretOf<'apns-certificate'>;

const HOSTS: Record<AppleEnvironment, string> = {
  production: 'api.push.apple.com',
  development: 'api.sandbox.push.apple.com',
};
const APNS_PORT = 443;
/** From the request to its answer, connecting included. */
const DEADLINE_MS = 10_000;
/** How long a link that is being closed may go on with what it carries. */
const RETIRE_MS = 10_000;
/** Megabytes; Node's own 10 end a session that has a few thousand requests waiting for a stream. */
const SESSION_MEMORY = 200;

/** The link to one of Apple's two servers; opened by the first request, and again after it broke. */
export interface ApnsLine {
  /** Always resolves, within 10 s. */
  send(notification: Notification, token: string): Promise<ApnsAnswer>;
  /** To be called when no request is under way. */
  close(): Promise<void>;
}

type Session = Pick<ClientHttp2Session, 'request'>;

/** The parts of node-apn's client that we put right; they aren't in its types. */
interface LibraryClient {
  session?: ClientHttp2Session;
  request(session: Session, ...rest: unknown[]): Promise<unknown>;
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
  const retiring = new Set<Promise<void>>();

  function retire(session: ClientHttp2Session | undefined): void {
    if (session === undefined || session.destroyed) return;
    const closed = closeGently(session).finally(() => retiring.delete(closed));
    retiring.add(closed);
  }

  // The library destroys a session at GOAWAY, and with it the requests that the server is answering.
  client.closeAndDestroySession = async (session) => retire(session);
  const request = client.request.bind(client);
  // For the library a request never fails, or it would lose the status of an answer on a closing session.
  client.request = async (session, ...rest) => ({
    answer: await ask(
      session,
      (watched) => request(watched, ...rest),
      () => retire(client.session),
    ),
  });

  return {
    async send(notification, token) {
      const { sent, failed } = await provider.send(notification, token);
      const [done] = sent as unknown as { answer: ApnsAnswer }[];
      // Only making a session fails here, and only for a key or certificate that TLS can't load.
      return done?.answer ?? { kind: 'unusable', detail: readFailure(failed[0]).detail };
    },
    async close() {
      await client.shutdown();
      await Promise.all(retiring);
    },
  };
}

/** One request: its answer as seen on the wire, or why there is none, or that the time is over. */
function ask(
  session: Session,
  request: (watched: Session) => Promise<unknown>,
  onSilence: () => void,
): Promise<ApnsAnswer> {
  return new Promise((resolve) => {
    let stream: ClientHttp2Stream | undefined;
    let seen: ReturnType<typeof watchStream> | undefined;
    const silence = setTimeout(() => {
      // A dead link would take all that follow with it.
      onSilence();
      giveUp('no answer in time');
    }, DEADLINE_MS);

    function end(failure: unknown): void {
      clearTimeout(silence);
      resolve(seen?.answer() ?? readFailure(failure));
    }
    function giveUp(why: string): void {
      stream?.close(constants.NGHTTP2_CANCEL);
      end(new Error(why));
    }

    const watched: Session = {
      request(headers, options) {
        stream = session.request(headers, options);
        seen = watchStream(stream, () => giveUp('the answer has no end'));
        return stream;
      },
    };
    request(watched).then(end, end);
  });
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
  const { request, closeAndDestroySession, shutdown } = client ?? {};
  if ([request, closeAndDestroySession, shutdown].some((part) => typeof part !== 'function')) {
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
