import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import { LRUCache } from 'lru-cache';
import { closeGracefully, createSettingsWaiter } from '../http2.ts';
import type { ConnectTarget } from './connect-target.ts';

/** A session if the service supports HTTP/2; the code of the error if it can't be reached. */
export type OpenResult = { session: ClientHttp2Session } | 'http/1.1' | { error: string };

/** Idle time after which a session is closed. */
const IDLE_TIMEOUT_MS = 30_000;
/** Time for which the negotiated protocol of a service is remembered. */
const PROTOCOL_CACHE_MS = 600_000;
/**
 * Maximum origins that are remembered. Endpoints come from devices, and a vendor's domain has any number of host names. The
 * session of a forgotten one is closed after its requests in flight.
 */
const MAX_ORIGINS = 200;

/** Creates an empty set of sessions: one for each origin that supports HTTP/2. */
export function createHttp2Sessions() {
  const origins = new LRUCache<string, Promise<OpenResult>>({
    max: MAX_ORIGINS,
    ttl: PROTOCOL_CACHE_MS,
    dispose(opening, _origin, reason) {
      if (reason === 'evict') void opening.then(closeWhenUsed);
    },
  });
  const waitForSettings = createSettingsWaiter();
  const openSessions = new Set<ClientHttp2Session>();

  /** @param forgetOrigin called when the session takes no new requests */
  function startSession(
    origin: string,
    socket: TLSSocket,
    forgetOrigin: () => void,
  ): ClientHttp2Session {
    const session = connect(origin, {
      createConnection: () => socket,
      settings: { enablePush: false },
    });
    openSessions.add(session);
    session.on('error', forgetOrigin);
    session.on('goaway', forgetOrigin);
    session.on('close', () => {
      openSessions.delete(session);
      forgetOrigin();
    });
    session.setTimeout(IDLE_TIMEOUT_MS, () => {
      forgetOrigin();
      void closeGracefully(session);
    });
    return session;
  }

  async function openNew(
    origin: string,
    target: ConnectTarget,
    deadlineMs: number,
    forgetOrigin: () => void,
  ): Promise<OpenResult> {
    const socket = await handshake(target, deadlineMs);
    if (typeof socket === 'string') {
      forgetOrigin();
      return { error: socket };
    }
    if (socket.alpnProtocol !== 'h2') {
      socket.destroy();
      return 'http/1.1';
    }
    const session = startSession(origin, socket, forgetOrigin);
    const settings = Promise.resolve(waitForSettings(session));
    const failure = await withTimeout(settings, deadlineMs, origin).catch((error) => error);
    if (failure === true || failure === undefined) return { session };
    session.destroy();
    return { error: 'ETIMEDOUT' };
  }

  return {
    async open(origin: string, target: ConnectTarget, deadlineMs: number): Promise<OpenResult> {
      const cached = origins.get(origin);
      if (cached !== undefined) {
        const openResult = await cached;
        if (!isClosed(openResult)) return openResult;
      }
      const forgetOrigin = (): void => {
        if (origins.peek(origin) === opening) origins.delete(origin);
      };
      const opening = openNew(origin, target, deadlineMs, forgetOrigin);
      origins.set(origin, opening);
      return opening;
    },
    /** Takes a session out of use; its requests in flight may end. */
    retire: (session: ClientHttp2Session): void => void closeGracefully(session),
    close(): void {
      origins.clear();
      for (const session of openSessions) session.destroy();
    },
  };
}

/** Closes a session after the requests in flight. Those that waited for it to open are written first. */
function closeWhenUsed(openResult: OpenResult): void {
  if (openResult === 'http/1.1' || 'error' in openResult) return;
  setImmediate(() => void closeGracefully(openResult.session));
}

function isClosed(openResult: OpenResult): boolean {
  if (openResult === 'http/1.1' || 'error' in openResult) return false;
  return openResult.session.closed || openResult.session.destroyed;
}

/** Resolves with a connected socket, or the code of the error. */
async function handshake(
  { hostname, port, servername, lookup, ca }: ConnectTarget,
  deadlineMs: number,
): Promise<TLSSocket | string> {
  const socket = connectTls({
    host: hostname,
    port: Number(port),
    servername,
    ALPNProtocols: ['h2', 'http/1.1'],
    ...(lookup !== undefined && { lookup }),
    ...(ca !== undefined && { ca }),
  });
  const connecting = new Promise<TLSSocket | string>((resolve) => {
    socket.once('secureConnect', () => resolve(socket));
    socket.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    socket.once('close', () => resolve('ECONNRESET'));
  });
  const result = await resultWithin(connecting, deadlineMs, 'ETIMEDOUT');
  if (typeof result === 'string') socket.destroy();
  return result;
}
