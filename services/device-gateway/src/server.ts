import { createServer } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Listen } from '@carillon/runtime/env';
import type { AddressLimits } from './address-limits.ts';

/** A herd that reconnects waits here instead of being refused by the kernel. */
const BACKLOG = 4_096;

/**
 * Listens for devices over plain TCP.
 *
 * @returns where it listens, and a stop that closes only the listening socket: links stay
 */
export async function listenTcp(
  listen: Listen,
  limits: AddressLimits,
  onLink: (stream: Duplex, address: string) => void,
): Promise<{ port: number; stop: () => void }> {
  const server = createServer({ noDelay: true }, (socket) => {
    const address = socket.remoteAddress ?? '';
    if (limits.open(address)) onLink(socket, address);
    else socket.destroy();
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ ...listen, backlog: BACKLOG }, resolve);
  });
  const bound = server.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    stop: () => void server.close(),
  };
}
