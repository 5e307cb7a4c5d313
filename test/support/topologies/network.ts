import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { findSocketOwners } from './socket-owner.ts';

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
  /** Ends a partition too, but what was sent meanwhile is lost, with the connections between the two sides. */
  drop(): void;
  stop(): Promise<void>;
}

interface Connection {
  /** Of the process that has opened it. */
  port: number;
  server: number;
  sockets: [Socket, Socket];
}

/** Two sides that don't reach each other. */
interface Division {
  inside: readonly Node[];
  known: readonly Node[];
}

/** Starts the proxies of some servers of this machine. */
export async function startNetwork(
  servers: readonly (Node & { port: number })[],
): Promise<Network> {
  const connections = new Set<Connection>();
  let division: Division | undefined;

  /** Stops the bytes of those of these connections whose ends are on different sides. */
  function cut(some: readonly Connection[]): void {
    if (division === undefined) return;
    const owners = findSocketOwners(
      some.map(({ port }) => port),
      listPids(division.known),
    );
    const inside = new Set(listPids(division.inside));
    for (const { port, server, sockets } of some) {
      const owner = owners.get(port);
      if (owner === undefined || inside.has(owner) === inside.has(servers[server]?.pid() ?? 0))
        continue;
      for (const socket of sockets) socket.pause();
    }
  }

  function accept(client: Socket, server: number): void {
    const upstream = connect(servers[server]?.port ?? 0, '127.0.0.1');
    const connection: Connection = {
      ...{ port: client.remotePort ?? 0, server },
      sockets: [client, upstream],
    };
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
    cut([connection]);
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
      division = { inside: side, known: [...servers, ...known] };
      cut([...connections]);
    },
    drop() {
      division = undefined;
      for (const { sockets } of connections)
        if (sockets.some((socket) => socket.isPaused()))
          for (const socket of sockets) socket.destroy();
    },
    heal() {
      division = undefined;
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

function listPids(nodes: readonly Node[]): number[] {
  return nodes.flatMap((node) => node.pid() ?? []);
}
