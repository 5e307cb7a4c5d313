import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/** Stands between a stack and a server, to break the way between them. */
export interface TcpProxy {
  port: number;
  /** Breaks every connection and refuses new ones until it is mended. */
  cut(): void;
  restore(): void;
  /** Leaves every connection open and passes no answer on any more; what is asked still arrives. */
  dropResponses(): void;
  /** Leaves every connection open and passes nothing on any more, as when the other side vanished; new ones work. */
  stall(): void;
  /** Holds back the next thing on its way to the server that contains these bytes, and what its connection sends after. */
  holdNext(bytes: string): HeldBytes;
  /**
   * Passes no response any more on connections that send one of these texts, now and later; all others work.
   * Requests still arrive.
   *
   * @returns a function that lets answers pass on new connections and breaks the silent ones
   */
  muteConnections(texts: readonly string[]): () => void;
  /** Twice is harmless. */
  stop(): Promise<void>;
}

/** Something on its way to the server that goes no further until it is released. */
export interface HeldBytes {
  /** Resolves when it has come. */
  matched: Promise<void>;
  release(): void;
}

/** Texts to look for on the way to the server, on all connections. */
interface Filters {
  mutedTexts: readonly string[];
  pendingHold: { bytes: string; onMatch: (pass: () => void) => void } | undefined;
}

/** Creates the way of one connection to the server. @param mute is called when a muted text passes */
function createRequestFilter(filters: Filters, mute: () => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const { mutedTexts, pendingHold } = filters;
      if (mutedTexts.some((text) => chunk.includes(text, 0, 'latin1'))) mute();
      if (pendingHold === undefined || !chunk.includes(pendingHold.bytes, 0, 'latin1'))
        return done(null, chunk);
      pendingHold.onMatch(() => done(null, chunk));
      filters.pendingHold = undefined;
    },
  });
}

/** Passes everything on to a port of this machine. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const upstreams = new Set<Socket>();
  const muted = new Set<Socket>();
  const filters: Filters = { mutedTexts: [], pendingHold: undefined };
  let isCut = false;
  const track = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  };
  const resetAll = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const server = createServer((socket) => {
    track(socket);
    if (isCut) return void socket.resetAndDestroy();
    const upstream = connect(target, '127.0.0.1');
    track(upstream);
    upstreams.add(upstream);
    upstream.once('close', () => upstreams.delete(upstream));
    const filter = createRequestFilter(filters, () => {
      muted.add(upstream);
      upstream.unpipe(socket).resume();
    });
    socket.pipe(filter).pipe(upstream).pipe(socket);
    socket.once('close', () => upstream.destroy());
    upstream.once('close', () => socket.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      isCut = true;
      resetAll();
    },
    restore() {
      isCut = false;
    },
    dropResponses() {
      for (const socket of upstreams) socket.unpipe().resume();
    },
    stall() {
      for (const socket of sockets) socket.unpipe().pause();
    },
    holdNext(bytes) {
      const matched = Promise.withResolvers<() => void>();
      filters.pendingHold = { bytes, onMatch: matched.resolve };
      return {
        matched: matched.promise.then(() => undefined),
        release: () => void matched.promise.then((pass) => pass()),
      };
    },
    muteConnections(texts) {
      filters.mutedTexts = texts;
      return () => {
        filters.mutedTexts = [];
        for (const socket of muted) socket.resetAndDestroy();
        muted.clear();
      };
    },
    async stop() {
      if (!server.listening) return;
      resetAll();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
