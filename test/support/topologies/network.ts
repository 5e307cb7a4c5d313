import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { findSocketOwner } from './socket-owner.ts';

/** A process of which a network knows on which side it is. */
export interface Node {
  pid(): number | undefined;
}

/**
 * The way to some servers, one proxy for each, which knows which process has opened a connection. A partition stops the bytes
 * between its two sides, in both directions, while connections stay open; what was sent meanwhile arrives when it ends.
 */
export interface Network {
  /** The port of the proxy of each server, in their order. */
  ports: readonly number[];
  /**
   * Separates some processes, and the servers among them, from all others that are known. A process that is not known, such
   * as the test's own, reaches every server.
   *
   * @param known processes besides the servers
   */
  separate(side: readonly Node[], known: readonly Node[]): void;
  heal(): void;
  stop(): Promise<void>;
}

interface Connection {
  /** Undefined: not one of the known processes. */
  owner: number | undefined;
  server: number;
  sockets: [Socket, Socket];
}

/** Starts the proxies of some servers of this machine. */
export async function startNetwork(
  servers: readonly (Node & { port: number })[],
): Promise<Network> {
  const connections = new Set<Connection>();
  let isCut: (connection: Connection) => boolean = () => false;
  let knownPids: () => number[] = () => listPids(servers);

  function accept(client: Socket, server: number): void {
    const owner = findSocketOwner(client.remotePort ?? 0, knownPids());
    const upstream = connect(servers[server]?.port ?? 0, '127.0.0.1');
    const connection: Connection = { owner, server, sockets: [client, upstream] };
    connections.add(connection);
    for (const socket of connection.sockets) {
      socket.on('error', () => socket.destroy());
      socket.once('close', () => {
        connections.delete(connection);
        for (const other of connection.sockets) other.destroy();
      });
    }
    client.on('data', (bytes: Buffer) => upstream.write(bytes));
    upstream.on('data', (bytes: Buffer) => client.write(bytes));
    if (isCut(connection)) pause(connection);
  }

  const proxies: Server[] = [];
  for (const index of servers.keys()) {
    const proxy = createServer((client) => accept(client, index));
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
    proxies.push(proxy);
  }
  return {
    ports: proxies.map((proxy) => (proxy.address() as AddressInfo).port),
    separate(side, known) {
      const all = [...servers, ...known];
      knownPids = () => listPids(all);
      isCut = ({ owner, server }) => {
        const inside = listPids(side);
        const serverPid = servers[server]?.pid() ?? 0;
        return owner !== undefined && inside.includes(owner) !== inside.includes(serverPid);
      };
      for (const connection of connections) {
        connection.owner ??= findSocketOwner(connection.sockets[0].remotePort ?? 0, knownPids());
        if (isCut(connection)) pause(connection);
      }
    },
    heal() {
      isCut = () => false;
      for (const { sockets } of connections) for (const socket of sockets) socket.resume();
    },
    async stop() {
      for (const { sockets } of connections) for (const socket of sockets) socket.destroy();
      await Promise.all(
        proxies.map((proxy) => {
          const closed = once(proxy, 'close');
          proxy.close();
          return closed;
        }),
      );
    },
  };
}

function pause({ sockets }: Connection): void {
  for (const socket of sockets) socket.pause();
}

function listPids(nodes: readonly Node[]): number[] {
  return nodes.flatMap((node) => node.pid() ?? []);
}
