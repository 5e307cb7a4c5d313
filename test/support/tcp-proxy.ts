import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Stands between a stack and a server, to break the way between them. */
export interface TcpProxy {
  port: number;
  /** Breaks every connection and refuses new ones until it is mended. */
  cut(): void;
  mend(): void;
  /** Leaves every connection open and passes no answer on any more; what is asked still arrives. */
  swallowAnswers(): void;
  /** Leaves every connection open and passes nothing on any more, as when the other side vanished; new ones work. */
  stall(): void;
  /** Twice is harmless. */
  stop(): Promise<void>;
}

/** Passes everything on to a port of this machine. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  const answering = new Set<Socket>();
  let isCut = false;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  };
  const breakAll = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const server = createServer((socket) => {
    keep(socket);
    if (isCut) return void socket.resetAndDestroy();
    const onward = connect(target, '127.0.0.1');
    keep(onward);
    answering.add(onward);
    onward.once('close', () => answering.delete(onward));
    socket.pipe(onward).pipe(socket);
    socket.once('close', () => onward.destroy());
    onward.once('close', () => socket.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      isCut = true;
      breakAll();
    },
    mend() {
      isCut = false;
    },
    swallowAnswers() {
      for (const socket of answering) socket.unpipe().resume();
    },
    stall() {
      for (const socket of sockets) socket.unpipe().pause();
    },
    async stop() {
      if (!server.listening) return;
      breakAll();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}
