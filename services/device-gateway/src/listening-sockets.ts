import { createServer, type ListenOptions, type Server, type Socket } from 'node:net';

/** An address, or descriptors of a socket that whoever started the process has opened. */
export type Where = { host: string; port: number } | { fds: readonly number[] };

/** A herd that reconnects waits here instead of being refused by the kernel, which may have a limit of its own. */
const BACKLOG = 4_096;
/**
 * The event loop takes one connection a turn from each listening socket; with a single one a herd overflows the
 * backlog, and those whose SYN was dropped come back after 1, 3, 7 … 63 s.
 */
const SOCKETS = 16;

/**
 * Listens with as many sockets as a herd needs.
 *
 * @param failed accepting failed once, after the start
 */
export async function openServers(
  where: Where,
  take: (socket: Socket) => void,
  failed: () => void,
): Promise<Server[]> {
  async function open(options: ListenOptions & { fd?: number }): Promise<Server> {
    const server = createServer({ noDelay: true, pauseOnConnect: true }, take);
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      // With a descriptor Node takes the backlog from nowhere but its own argument, and 511 without it.
      server.listen(options, BACKLOG, resolve);
    });
    server.on('error', failed);
    return server;
  }

  if ('fds' in where) return Promise.all(where.fds.map((fd) => open({ fd })));
  try {
    const first = await open({ ...where, reusePort: true });
    const bound = first.address();
    const port = typeof bound === 'object' && bound !== null ? bound.port : where.port;
    const more = Array.from({ length: SOCKETS - 1 }, () =>
      open({ host: where.host, port, reusePort: true }),
    );
    return [first, ...(await Promise.all(more))];
  } catch (error) {
    // Only Linux and some BSDs share a port between sockets of one process.
    if ((error as NodeJS.ErrnoException).code !== 'ENOTSUP') throw error;
    return [await open(where)];
  }
}
