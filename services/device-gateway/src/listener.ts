import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';
import { createAcceptThrottle } from './accept-throttle.ts';
import type { AddressLimits } from './address-limits.ts';
import type { Connections } from './connections.ts';
import type { ProxyDetector } from './detect-proxy.ts';
import type { GatewayMetrics } from './metrics.ts';
import {
  type PendingConnection,
  type PendingConnections,
  UNKNOWN_ADDRESS,
} from './pending-connections.ts';
import { readProxyHeader } from './proxy-header.ts';

/** A host and port, or descriptors of a listening socket that the parent process has opened. */
export type ListenAddress = { host: string; port: number } | { fds: readonly number[] };

/**
 * Maximum connections that wait in the kernel's queue. Reconnecting devices wait there instead of being refused; the
 * kernel may have a lower limit of its own.
 */
const BACKLOG = 4_096;
/**
 * Number of listening sockets of a port: the event loop accepts one connection a turn from each. With a single one,
 * many devices that reconnect overflow the backlog, and a client whose SYN was dropped retries after 1, 3, 7 … 63 s.
 */
const SOCKETS_PER_PORT = 16;

/** Capacity for pending connections, as a fraction of `maxConnections`. */
const PENDING_FRACTION = 0.05;
/** Maximum accepted sockets that wait while there is no capacity. */
const MAX_QUEUED_SOCKETS = 1_000;

/** Reason why a socket is closed before its CONNECT; `gave-way`: it was evicted for another one. */
export type RejectionReason = 'full' | 'limited' | 'crowded' | 'gave-way' | 'foreign-origin';

/** The parts of the gateway, and the settings, that accepting a connection uses. */
export interface AcceptContext {
  limits: AddressLimits;
  connections: Pick<Connections, 'size'>;
  pendingConnections: PendingConnections;
  metrics: GatewayMetrics;
  proxyDetector: ProxyDetector;
  maxConnections: number;
  /** Each connection starts with a PROXY protocol header, version 2. */
  hasProxyHeader: boolean;
}

/** A port on which connections of one transport are accepted. */
export type Listener = Awaited<ReturnType<typeof openListener>>;

/**
 * Accepts connections, throttled, and closes those above a limit before a byte of them is read.
 *
 * @param countQueued counts the accepted sockets that wait, at all listeners
 * @param startTransport takes a connection whose address is known, to complete its transport
 */
export async function openListener(
  listenAddress: ListenAddress,
  context: AcceptContext,
  countQueued: () => number,
  startTransport: (socket: Socket, pending: PendingConnection) => void,
) {
  const { limits, pendingConnections, metrics, proxyDetector, hasProxyHeader } = context;

  function reject(socket: Socket, reason: RejectionReason): void {
    metrics.countConnect(reason);
    socket.destroy();
  }

  // A connection is evicted only when the socket's turn has come: what it has sent is read before the next turn.
  const throttle = createAcceptThrottle(
    ({ socket, address }) => {
      if (!ensureCapacity(context)) return false;
      const pending = pendingConnections.add(socket, hasProxyHeader ? UNKNOWN_ADDRESS : address);
      if (pending === undefined) return false;
      if (hasProxyHeader) void startBehindProxy(socket, pending, address);
      else startTransport(socket, pending);
      return true;
    },
    () => metrics.countConnect('gave-way'),
  );

  async function startBehindProxy(
    socket: Socket,
    pending: PendingConnection,
    proxyAddress: string,
  ): Promise<void> {
    try {
      const address = (await readProxyHeader(socket)) ?? proxyAddress;
      if (socket.destroyed) return;
      if (pendingConnections.setAddress(pending, address)) startTransport(socket, pending);
      else reject(socket, 'limited');
    } catch {
      socket.destroy();
    }
  }

  function acceptSocket(socket: Socket): void {
    // The cause of a broken connection is of no use; its close is handled.
    socket.on('error', ignore);
    const address = socket.remoteAddress ?? '';
    // Behind a proxy the address is the proxy's, which must not be limited.
    const isOverLimit = !hasProxyHeader && limits.exceedsConnectionRate(address);
    if (isOverLimit) proxyDetector.onConnectionLimit(address);
    if (isFull(context, countQueued())) reject(socket, 'full');
    else if (!throttle.enqueue({ socket, address }, isOverLimit)) reject(socket, 'crowded');
  }

  // Without a free file descriptor, for instance, the kernel closes that connection and accepts later ones.
  const onAcceptError = () => metrics.countConnect('full');
  const servers = await openServers(listenAddress, acceptSocket, onAcceptError);
  return {
    /** The port it is bound to. */
    port: boundPort(servers[0]),
    /** Sockets that were accepted and not started. */
    countQueued: throttle.countQueued,
    /** Stops listening and closes the queued sockets; connections stay open. */
    stop(): void {
      for (const server of servers) server.close();
      throttle.stop();
    },
  };
}

/** Checks whether there is capacity for one more connection; evicts a pending one if necessary. */
function ensureCapacity({
  connections,
  pendingConnections,
  maxConnections,
}: AcceptContext): boolean {
  const pendingCount = pendingConnections.count();
  return (
    connections.size() + pendingCount < maxConnections ||
    pendingCount < maxPending(maxConnections) ||
    pendingConnections.evictOne()
  );
}

/** Checks whether so many sockets are open that no further one may wait. */
function isFull(
  { connections, pendingConnections, maxConnections }: AcceptContext,
  queuedCount: number,
): boolean {
  const openCount = connections.size() + pendingConnections.count() + queuedCount;
  return openCount >= maxConnections + maxPending(maxConnections) + MAX_QUEUED_SOCKETS;
}

function maxPending(maxConnections: number): number {
  return Math.ceil(maxConnections * PENDING_FRACTION);
}

/**
 * Listens with several sockets on one port.
 *
 * @param onAcceptError is called when accepting a connection fails
 */
async function openServers(
  listenAddress: ListenAddress,
  onSocket: (socket: Socket) => void,
  onAcceptError: () => void,
): Promise<Server[]> {
  async function open(options: ListenOptions & { fd?: number }): Promise<Server> {
    const server = createServer({ noDelay: true, pauseOnConnect: true }, onSocket);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      // With a descriptor Node reads the backlog only from this argument, and takes 511 without it.
      server.listen(options, BACKLOG, resolve);
    });
    server.on('error', onAcceptError);
    return server;
  }

  if ('fds' in listenAddress) return Promise.all(listenAddress.fds.map((fd) => open({ fd })));
  try {
    const first = await open({ ...listenAddress, reusePort: true });
    const more = Array.from({ length: SOCKETS_PER_PORT - 1 }, () =>
      open({ host: listenAddress.host, port: boundPort(first), reusePort: true }),
    );
    return [first, ...(await Promise.all(more))];
  } catch (error) {
    // Only Linux and some BSDs share a port between sockets of one process.
    if ((error as NodeJS.ErrnoException).code !== 'ENOTSUP') throw error;
    return [await open(listenAddress)];
  }
}

function boundPort(server: Server | undefined): number {
  const bound = server?.address();
  return typeof bound === 'object' && bound !== null ? bound.port : 0;
}

function ignore(): void {}
