import { type ClientHttp2Session, connect } from 'node:http2';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Route } from './route.ts';

/** Whether the service speaks HTTP/2; the code of the error if it can't be reached. */
export type Opened = { session: ClientHttp2Session } | 'http/1.1' | { error: string };

const IDLE_LINK_MS = 30_000;
/** How long a session that is being closed may go on with what it carries. */
const RETIRE_MS = 10_000;
/** A service is asked again after this time what it speaks. */
const REMEMBERED_MS = 600_000;
/** Endpoints come from devices; names under a vendor's domain have no end. */
const MAX_ORIGINS = 200;

/** One session for each origin that speaks HTTP/2. */
export interface Sessions {
  open(origin: string, route: Route, deadlineMs: number): Promise<Opened>;
  /** Takes a session out of use; what it carries may end. */
  retire(session: ClientHttp2Session): void;
  close(): void;
}

interface Entry {
  at: number;
  opening: Promise<Opened>;
}

/** Makes an empty set of sessions. */
export function createSessions(): Sessions {
  const origins = new Map<string, Entry>();
  const live = new Set<ClientHttp2Session>();

  /** @param leave called once the session is to take nothing new */
  function begin(origin: string, socket: TLSSocket, leave: () => void): ClientHttp2Session {
    const session = connect(origin, {
      createConnection: () => socket,
      settings: { enablePush: false },
    });
    live.add(session);
    session.on('error', leave);
    session.on('goaway', leave);
    session.on('close', () => {
      live.delete(session);
      leave();
    });
    session.setTimeout(IDLE_LINK_MS, () => {
      leave();
      retire(session);
    });
    return session;
  }

  async function openNew(
    origin: string,
    route: Route,
    deadlineMs: number,
    leave: () => void,
  ): Promise<Opened> {
    const socket = await handshake(route, deadlineMs);
    if (typeof socket === 'string') {
      leave();
      return { error: socket };
    }
    if (socket.alpnProtocol !== 'h2') {
      socket.destroy();
      return 'http/1.1';
    }
    const session = begin(origin, socket, leave);
    if (await hasSettings(session, deadlineMs)) return { session };
    session.destroy();
    return { error: 'ETIMEDOUT' };
  }

  return {
    async open(origin, route, deadlineMs) {
      const known = origins.get(origin);
      if (known !== undefined && performance.now() - known.at < REMEMBERED_MS) {
        const opened = await known.opening;
        if (!isOver(opened)) return opened;
      }
      if (origins.size >= MAX_ORIGINS) origins.clear();
      const leave = (): void => {
        if (origins.get(origin) === entry) origins.delete(origin);
      };
      const opening = openNew(origin, route, deadlineMs, leave);
      const entry: Entry = { at: performance.now(), opening };
      origins.set(origin, entry);
      return opening;
    },
    retire,
    close() {
      origins.clear();
      for (const session of live) session.destroy();
    },
  };
}

function retire(session: ClientHttp2Session): void {
  if (session.destroyed) return;
  const tooLong = setTimeout(() => session.destroy(), RETIRE_MS);
  session.once('close', () => clearTimeout(tooLong));
  session.close();
}

function isOver(opened: Opened): boolean {
  if (opened === 'http/1.1' || 'error' in opened) return false;
  return opened.session.closed || opened.session.destroyed;
}

/** A connected socket, or the code of what went wrong. */
function handshake(
  { hostname, port, servername, lookup, ca }: Route,
  deadlineMs: number,
): Promise<TLSSocket | string> {
  return new Promise((resolve) => {
    const socket = connectTls({
      host: hostname,
      port: Number(port),
      servername,
      ALPNProtocols: ['h2', 'http/1.1'],
      ...(lookup !== undefined && { lookup }),
      ...(ca !== undefined && { ca }),
    });
    const deadline = setTimeout(() => end('ETIMEDOUT'), deadlineMs);
    function end(why: TLSSocket | string): void {
      clearTimeout(deadline);
      if (typeof why === 'string') socket.destroy();
      resolve(why);
    }
    socket.once('secureConnect', () => end(socket));
    socket.on('error', (error: NodeJS.ErrnoException) => end(error.code ?? error.message));
    socket.once('close', () => end('ECONNRESET'));
  });
}

/** Before they come Node takes 100 streams for granted, and a service that allows fewer refuses the rest. */
function hasSettings(session: ClientHttp2Session, deadlineMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const deadline = setTimeout(() => resolve(false), deadlineMs);
    const end = (has: boolean) => () => {
      clearTimeout(deadline);
      resolve(has);
    };
    session.once('remoteSettings', end(true));
    session.once('close', end(false));
  });
}
