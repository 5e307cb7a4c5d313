import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP load balancer in front of the processes of one service. */
export interface LoadBalancer {
  port: number;
  /** Sends new connections to these ports from now on; open ones stay where they are. */
  setTargets(ports: readonly number[]): void;
  stop(): Promise<void>;
}

/** Starts a load balancer without targets. */
export async function startLoadBalancer(): Promise<LoadBalancer> {
  let targets: readonly number[] = [];
  let connections = 0;
  const sockets = new Set<Socket>();
  const track = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    track(client);
    connections += 1;
    const port = targets[connections % targets.length];
    if (port === undefined) return void client.destroy();
    const upstream = track(connect({ port, host: '127.0.0.1', allowHalfOpen: true }));
    client.pipe(upstream).pipe(client);
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    setTargets(ports) {
      targets = ports;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
