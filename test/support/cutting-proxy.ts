import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** Where the connection to MongoDB is cut: no byte of the statement arrives, half of them, or all but the reply is lost. */
export type CutPoint = 'before' | 'in the middle' | 'after';

/** Statements that are counted. */
export interface CountedStatements {
  collection?: string;
  /** Such as `insert`. */
  command?: string;
  /** Bytes that the statement contains, as Latin-1. */
  bytes?: string;
}

/** What a proxy has passed on. */
export interface Traffic {
  statements: number;
  bytesIn: number;
  bytesOut: number;
}

/** Statements that wait for the test. */
export interface HeldStatements {
  /** Resolves when the first one has arrived. */
  reached: Promise<void>;
  /** Lets all of them pass. */
  release(): void;
}

/** Stands between a store and MongoDB, reads the statements that pass, and cuts the connection at one of them. */
export interface CuttingProxy {
  port: number;
  /** Statements that write (to the collection, if one was named), since the start or the last `cutAt`. */
  writes(): number;
  /**
   * Cuts the connection of the n-th statement that writes from now on, counted from 1; later ones pass.
   *
   * @param only the statements that are counted; all if absent
   */
  cutAtWrite(n: number, point: CutPoint, only?: CountedStatements): void;
  isCutDone(): boolean;
  /** Statements since the start, also those that read, and the bytes of them and of their responses. */
  traffic(): Traffic;
  /** Holds the n-th statement from now on, counted from 1, and all that follow it, reads too. */
  holdAt(n: number): HeldStatements;
  stop(): Promise<void>;
}

const WRITES = new Set(['insert', 'update', 'delete', 'findAndModify', 'createIndexes']);
const STATEMENTS = new Set([...WRITES, 'find', 'aggregate', 'distinct']);

/** MongoDB wire protocol: a header of 16 bytes, flags, then a section of kind 0 whose first field is the command. */
const OP_MSG = 2013;
const HEADER_BYTES = 16;
const COMMAND_OFFSET = HEADER_BYTES + 4 + 1 + 4 + 1;

export async function startCuttingProxy(target: number): Promise<CuttingProxy> {
  const sockets = new Set<Socket>();
  let seen = 0;
  let cut: { n: number; point: CutPoint; only: CountedStatements } | undefined;
  let isCutDone = false;
  const traffic: Traffic = { statements: 0, bytesIn: 0, bytesOut: 0 };
  const holder = createHolder();

  function track(socket: Socket): void {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
  }

  /** Passes a message on; false when the connection was cut by it. */
  function pass(message: Buffer, client: Socket, server: Socket): void {
    if (holder.hold(message, server)) return;
    const isCounted = isWriteTo(message, cut?.only);
    if (isCounted) seen += 1;
    const isCutPoint = isCounted && cut?.n === seen && !isCutDone;
    if (!isCutPoint) return void server.write(message);
    isCutDone = true;
    if (cut?.point === 'after') {
      // The reply means that the statement was carried out; it goes no further.
      server.removeAllListeners('data').once('data', () => client.resetAndDestroy());
      server.write(message);
    } else if (cut?.point === 'in the middle') {
      server.write(message.subarray(0, message.length / 2), () => client.resetAndDestroy());
    } else client.resetAndDestroy();
  }

  const proxy = createServer((client) => {
    const server = connect(target, '127.0.0.1');
    track(client);
    track(server);
    let pending = Buffer.alloc(0);
    let isStatement = false;
    client.on('data', (bytes: Buffer) => {
      pending = Buffer.concat([pending, bytes]);
      while (pending.length >= 4 && pending.length >= pending.readInt32LE(0)) {
        const message = pending.subarray(0, pending.readInt32LE(0));
        pending = pending.subarray(message.length);
        isStatement = STATEMENTS.has(commandOf(message) ?? '');
        if (isStatement) {
          traffic.statements += 1;
          traffic.bytesIn += message.length;
        }
        pass(message, client, server);
      }
    });
    server.on('data', (bytes: Buffer) => {
      if (isStatement) traffic.bytesOut += bytes.length;
      client.write(bytes);
    });
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroy());
  });
  await once(proxy.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (proxy.address() as AddressInfo).port,
    writes: () => seen,
    cutAtWrite(n, point, only = {}) {
      seen = 0;
      isCutDone = false;
      cut = { n, point, only };
    },
    isCutDone: () => isCutDone,
    traffic: () => ({ ...traffic }),
    holdAt: holder.holdAt,
    async stop() {
      for (const socket of sockets) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}

function createHolder() {
  let hold = (_message: Buffer, _server: Socket): boolean => false;
  return {
    /** Returns whether a message has to wait. */
    hold: (message: Buffer, server: Socket) => hold(message, server),
    holdAt(n: number): HeldStatements {
      const reached = Promise.withResolvers<void>();
      const held: (() => void)[] = [];
      let statements = 0;
      hold = (message, server) => {
        if (!STATEMENTS.has(commandOf(message) ?? '')) return false;
        statements += 1;
        if (statements < n) return false;
        reached.resolve();
        held.push(() => server.write(message));
        return true;
      };
      return {
        reached: reached.promise,
        release() {
          hold = () => false;
          for (const send of held) send();
        },
      };
    },
  };
}

function commandOf(message: Buffer): string | undefined {
  if (message.length <= COMMAND_OFFSET || message.readInt32LE(12) !== OP_MSG) return undefined;
  return message.toString('latin1', COMMAND_OFFSET, message.indexOf(0, COMMAND_OFFSET));
}

function isWriteTo(message: Buffer, only: CountedStatements = {}): boolean {
  const command = commandOf(message);
  if (command === undefined || !WRITES.has(command)) return false;
  if (command !== (only.command ?? command)) return false;
  if (only.bytes !== undefined && !message.includes(only.bytes, 0, 'latin1')) return false;
  // Its value is the collection's name: a length of 4 bytes, then the text.
  const nameAt = COMMAND_OFFSET + command.length + 5;
  const collection = message.toString('latin1', nameAt, message.indexOf(0, nameAt));
  return collection === (only.collection ?? collection);
}
