import type { Socket } from 'node:net';
import type { AddressLimits } from './address-limits.ts';
import { openServers, type Where } from './listening-sockets.ts';
import { createPace } from './pace.ts';
import { readProxyHeader } from './proxy-header.ts';
import type { Stranger, Strangers } from './strangers.ts';

export interface AcceptDeps {
  limits: AddressLimits;
  strangers: Strangers;
  /** Whether the process holds as many links as it may. */
  isFull(): boolean;
  /** Each link begins with a header of the PROXY protocol. */
  hasProxyHeader: boolean;
  turnedAway(why: 'full' | 'limited' | 'crowded'): void;
}

/** Where links of one transport come in. */
export interface Entrance {
  port: number;
  /** Links that were accepted and not begun. */
  waiting(): number;
  /** Listens no more and closes those who wait; links stay. */
  stop(): void;
}

/**
 * Accepts links, paced, and holds off what would be too much before a byte of it is read.
 *
 * @param enter takes a link whose address is known, to build up its transport
 */
export async function openEntrance(
  where: Where,
  deps: AcceptDeps,
  enter: (socket: Socket, stranger: Stranger) => void,
): Promise<Entrance> {
  const { limits, strangers, isFull, hasProxyHeader, turnedAway } = deps;

  function turnAway(socket: Socket, why: Parameters<typeof turnedAway>[0]): void {
    turnedAway(why);
    socket.destroy();
  }

  const pace = createPace(({ socket, address }) => {
    const stranger = strangers.add(socket, address);
    if (hasProxyHeader) void enterBehindProxy(socket, stranger);
    else enter(socket, stranger);
  });

  async function enterBehindProxy(socket: Socket, stranger: Stranger): Promise<void> {
    try {
      const address = (await readProxyHeader(socket)) ?? stranger.address;
      if (socket.destroyed) return;
      if (!limits.open(address)) return turnAway(socket, 'limited');
      stranger.address = address;
      enter(socket, stranger);
    } catch {
      socket.destroy();
    }
  }

  function admit(socket: Socket): void {
    // The reason of a broken link is of no use; its close is what counts.
    socket.on('error', ignore);
    const address = socket.remoteAddress ?? '';
    if (isFull()) turnAway(socket, 'full');
    // Behind a proxy the address is the proxy's, which is not to be limited.
    else if (!hasProxyHeader && !limits.open(address)) turnAway(socket, 'limited');
    else if (!pace.enter({ socket, address })) {
      if (!hasProxyHeader) limits.known(address);
      turnAway(socket, 'crowded');
    }
  }

  // For instance no more files: the kernel has closed that link, the others go on.
  const servers = await openServers(where, admit, () => turnedAway('full'));
  const bound = servers[0]?.address();
  return {
    port: typeof bound === 'object' && bound !== null ? bound.port : 0,
    waiting: pace.waiting,
    stop() {
      for (const server of servers) server.close();
      pace.stop();
    },
  };
}

function ignore(): void {}
