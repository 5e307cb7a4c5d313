import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { Webhook } from 'standardwebhooks';

/** Responds to a request that was read to its end. */
export type Responder = (request: IncomingMessage, response: ServerResponse) => void;

/** A received request, accepted or not, verified by the library of Standard Webhooks. */
export interface ReceivedRequest {
  id: string;
  body: string;
  app: string;
  events: { id: string; type: string; data: Record<string, unknown> }[];
}

/** A receiver of webhooks over HTTP. */
export type Receiver = Awaited<ReturnType<typeof startReceiver>>;

/** Responds with a status and headers. */
export function status(code: number, headers: Record<string, string> = {}): Responder {
  return (_request, response) => response.writeHead(code, headers).end();
}

/** Starts a receiver that accepts all requests, by default on a free port. */
export async function startReceiver(secret: string, givenPort = 0) {
  const judge = new Webhook(secret);
  const sockets = new Set<Socket>();
  let connections = 0;
  let responder = status(200);
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    try {
      judge.verify(body, request.headers as Record<string, string>);
      receiver.requests.push({
        id: String(request.headers['webhook-id']),
        body,
        ...JSON.parse(body),
      });
    } catch {
      receiver.forged += 1;
    }
    responder(request, response);
  });
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(givenPort, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const receiver = {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    /** All requests, including those whose response was an error. */
    requests: [] as ReceivedRequest[],
    /** Requests whose signature is wrong. */
    forged: 0,
    connections: () => connections,
    respondWith(next: Responder): void {
      responder = next;
    },
    async stop(): Promise<void> {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
  return receiver;
}
