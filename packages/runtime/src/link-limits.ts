import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Maximum requests of a connection that are handled at a time; further pipelined ones wait. */
export const MAX_HANDLED = 8;
/** Maximum requests of a connection that wait; with more it is closed. No client of today pipelines so many. */
export const MAX_WAITING_REQUESTS = 32;
/** Time without progress, milliseconds, after which a connection that does not take a response is closed. */
const UNREAD_TIMEOUT_MS = 10_000;

type Listener = (request: IncomingMessage, response: ServerResponse) => void;

/** State of a connection. */
interface Link {
  handled: number;
  waiting: [IncomingMessage, ServerResponse][];
}

/**
 * Limits the responses that a client has not read. Node parses and handles every pipelined request as it arrives and
 * keeps all responses of a connection; a client that reads none would have it keep them until the memory ends.
 *
 * @param handle handles a request
 * @param unreadTimeoutMs time without progress after which a connection that does not take a response is closed
 * @returns the listener of requests, and `watch`, which has a server close connections that make no progress
 */
export function limitLinks(
  handle: Listener,
  unreadTimeoutMs: number = UNREAD_TIMEOUT_MS,
): { listener: Listener; watch: (server: Server) => void } {
  const links = new WeakMap<Socket, Link>();

  function start(link: Link, request: IncomingMessage, response: ServerResponse): void {
    link.handled += 1;
    response.once('close', () => {
      link.handled -= 1;
      const next = request.socket.destroyed ? undefined : link.waiting.shift();
      if (next !== undefined) start(link, ...next);
    });
    handle(request, response);
  }

  return {
    listener(request, response) {
      const { socket } = request;
      // The parser goes on with the rest of its buffer.
      if (socket.destroyed) return;
      const link = links.get(socket) ?? { handled: 0, waiting: [] };
      links.set(socket, link);
      if (link.handled < MAX_HANDLED) return start(link, request, response);
      if (link.waiting.length >= MAX_WAITING_REQUESTS) return void socket.destroy();
      link.waiting.push([request, response]);
    },
    watch(server) {
      server.timeout = unreadTimeoutMs;
      // With a listener Node no longer closes the connection itself, not even an idle one.
      server.on('timeout', (socket: Socket) => {
        const link = links.get(socket);
        // Its first request has time limits of its own. A handler may take its time while nothing waits to be written.
        const isOpen = link === undefined || (link.handled > 0 && socket.writableLength === 0);
        if (!isOpen) socket.destroy();
      });
    },
  };
}
