import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

/** Where bytes go: `requests` to the server, `responses` to the client. */
export type Direction = 'requests' | 'responses';

/** Forwards bytes between a stack and a server, to cause faults between them. */
export interface TcpProxy {
  port: number;
  /** Cuts every connection and refuses new ones until `restore`. */
  cut(): void;
  /** Ends what `cut`, `block`, `delayRequests` and `delayResponses` have done. */
  restore(): void;
  /**
   * Stops the bytes of one direction on all connections, old and new, while all of them stay open and the other direction
   * works. As after a partition of a network, what was sent meanwhile arrives when bytes pass again, even from a side that
   * has closed the connection since.
   */
  block(direction: Direction): void;
  /** Returns how many bytes `block` has held back since it was called. */
  heldBytes(): number;
  /** Delays each chunk of bytes to the server for some time, one after the other. */
  delayRequests(ms: number): void;
  /** Passes each chunk of bytes to the client so much later, as over a long distance: chunks don't wait for each other. */
  delayResponses(ms: number): void;
  /** Leaves every connection open and passes no response any more; requests still arrive. */
  dropResponses(): void;
  /** Leaves every connection open and passes nothing on any more, as when the other side vanished; new ones work. */
  stall(): void;
  /** Holds back the next chunk to the server that contains these bytes, and everything its connection sends after. */
  holdNext(bytes: string): HeldBytes;
  /**
   * Passes no response any more on connections that send one of these texts, now and later; all others work.
   * Requests still arrive.
   *
   * @returns a function that lets responses pass on new connections and breaks the silent ones
   */
  muteConnections(texts: readonly string[]): () => void;
  /** Twice is harmless. */
  stop(): Promise<void>;
}

/** A chunk to the server that is held back until it is released. */
export interface HeldBytes {
  /** Resolves when the chunk has arrived. */
  matched: Promise<void>;
  release(): void;
}

/** Gates and delay of the bytes of all connections. */
interface Filters {
  gates: Record<Direction, Gate>;
  heldBytes: number;
  delayMs: number;
  responseDelayMs: number;
  mutedTexts: readonly string[];
  pendingHold: { bytes: string; onMatch: (pass: () => void) => void } | undefined;
}

/** Creates the filter of one connection to the server. @param mute is called when a muted text passes */
function createRequestFilter(filters: Filters, mute: () => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const { mutedTexts, pendingHold, delayMs, gates } = filters;
      if (!gates.requests.isOpen()) filters.heldBytes += chunk.length;
      if (mutedTexts.some((text) => chunk.includes(text, 0, 'latin1'))) mute();
      const pass = () => gates.requests.whenOpen(() => done(null, chunk));
      if (pendingHold?.bytes !== undefined && chunk.includes(pendingHold.bytes, 0, 'latin1')) {
        filters.pendingHold = undefined;
        pendingHold.onMatch(pass);
      } else if (delayMs > 0) setTimeout(pass, delayMs);
      else pass();
    },
  });
}

/** Creates the filter of one connection back to the client. */
function createResponseFilter(filters: Filters): Transform {
  /** Ends when the chunks so far have passed: none overtakes another when the delay changes. */
  let passed = Promise.resolve();
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const { gates, responseDelayMs } = filters;
      if (!gates.responses.isOpen()) filters.heldBytes += chunk.length;
      const isDelayed = responseDelayMs > 0 ? sleep(responseDelayMs) : undefined;
      passed = Promise.all([passed, isDelayed]).then(() => void this.push(chunk));
      gates.responses.whenOpen(() => done());
    },
    flush: (done) => void passed.then(() => done()),
  });
}

/** Returns the functions of a proxy that stop one direction. */
function createBlock(filters: Filters): Pick<TcpProxy, 'block' | 'heldBytes'> {
  return {
    block(direction) {
      filters.heldBytes = 0;
      filters.gates[direction].close();
    },
    heldBytes: () => filters.heldBytes,
  };
}

/** Passes the bytes of a connection on, and its end. */
function relay(socket: Socket, upstream: Socket, filters: Filters, mute: () => void): void {
  const { requests, responses } = filters.gates;
  const filter = createRequestFilter(filters, mute);
  socket.pipe(filter).pipe(upstream).pipe(createResponseFilter(filters)).pipe(socket);
  socket.once('close', () => {
    if (requests.isOpen()) return void upstream.destroy();
    // The server learns of the end after what was sent before it.
    requests.whenOpen(() => {
      upstream.unpipe().resume();
      if (!filter.writableEnded) filter.end();
    });
  });
  upstream.once('close', () => responses.whenOpen(() => socket.destroy()));
}

/** Passes everything on to a port of this machine. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const upstreams = new Set<Socket>();
  const muted = new Set<Socket>();
  const gates = { requests: createGate(), responses: createGate() };
  const filters: Filters = {
    ...{ gates, heldBytes: 0, delayMs: 0, responseDelayMs: 0 },
    ...{ mutedTexts: [], pendingHold: undefined },
  };
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
    relay(socket, upstream, filters, () => {
      muted.add(upstream);
      upstream.unpipe().resume();
    });
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
      Object.assign(filters, { delayMs: 0, responseDelayMs: 0 });
      for (const gate of Object.values(gates)) gate.open();
    },
    ...createBlock(filters),
    delayRequests: (delayMs) => void Object.assign(filters, { delayMs }),
    delayResponses: (responseDelayMs) => void Object.assign(filters, { responseDelayMs }),
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

/** A gate for a stream of bytes that can be closed and opened. */
type Gate = ReturnType<typeof createGate>;

/** Creates an open gate. */
function createGate() {
  let waiting: (() => void)[] | undefined;
  return {
    isOpen: () => waiting === undefined,
    close() {
      waiting ??= [];
    },
    open() {
      const runs = waiting ?? [];
      waiting = undefined;
      for (const run of runs) run();
    },
    /** Calls a function when the gate is open: now, or as soon as it is opened. */
    whenOpen(run: () => void) {
      if (waiting === undefined) run();
      else waiting.push(run);
    },
  };
}
