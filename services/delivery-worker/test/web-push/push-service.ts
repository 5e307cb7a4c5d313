import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { makeAuthority, makeServerCertificate } from '@carillon/runtime/certificates';

/** A request that a push service received. */
export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Responds to a request that was read to its end. */
export type ResponseHandler = (request: IncomingMessage, response: ServerResponse) => void;

/** A push service over TLS with configurable responses. */
export interface PushService {
  /** `127.0.0.1:port` */
  host: string;
  /** PEM. */
  ca: string;
  received: Received[];
  /** Connections so far. */
  connections(): number;
  /** Connections that are open. */
  openConnections(): number;
  respondWith(handler: ResponseHandler): void;
  stop(): Promise<void>;
}

/** Responds with a status, headers and a body. */
export function createHandler(
  status: number,
  headers: Record<string, string> = {},
  body = '',
): ResponseHandler {
  return (_request, response) => response.writeHead(status, headers).end(body);
}

/** Writes some bytes again and again until the response is closed. */
function drip(response: ServerResponse, writeBytes: () => void): void {
  const timer = setInterval(writeBytes, 20);
  response.on('close', () => clearInterval(timer));
}

/** Responds with a status and a body that never ends, a byte at a time. */
export function createSlowHandler(status: number): ResponseHandler {
  return (_request, response) => {
    response.writeHead(status).flushHeaders();
    drip(response, () => response.write('x'));
  };
}

/** Creates a handler that responds with a status and as much as the client takes, and counts the bytes of each response. */
export function createEndlessHandler(status: number): {
  handler: ResponseHandler;
  written(): number;
} {
  let written = 0;
  const chunk = Buffer.alloc(65_536, 'x');
  const handler: ResponseHandler = (_request, response) => {
    response.writeHead(status);
    written = 0;
    const writeUntilFull = (): void => {
      while (!response.destroyed && response.write(chunk)) written += chunk.length;
    };
    response.on('drain', writeUntilFull);
    writeUntilFull();
  };
  return { handler, written: () => written };
}

/** Servers without a valid response, and the error of a request to them. */
export const NO_RESPONSE: [what: string, handler: ResponseHandler, error: string][] = [
  ['sends no response', () => undefined, 'ETIMEDOUT'],
  [
    'sends its headers slowly',
    (_request, response) => {
      response.socket?.write('HTTP/1.1 201 Created\r\n');
      drip(response, () => response.socket?.write('x-a: b\r\n'));
    },
    'ETIMEDOUT',
  ],
  [
    'never ends its headers',
    (_request, response) => {
      response.socket?.write(`HTTP/1.1 201 Created\r\nx-a: ${'b'.repeat(100_000)}`);
    },
    'HPE_HEADER_OVERFLOW',
  ],
  [
    'does not use HTTP',
    (_request, response) => response.socket?.end('hello\r\n\r\n'),
    'HPE_INVALID_CONSTANT',
  ],
  ['hangs up', (_request, response) => response.socket?.destroy(), 'ECONNRESET'],
];

/** Starts a push service that accepts all requests. @param names in its certificate in addition to 127.0.0.1 */
export async function startPushService(names: readonly string[] = []): Promise<PushService> {
  const authority = await makeAuthority(2);
  const pair = await makeServerCertificate(authority, ['127.0.0.1', ...names], 1);
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  let handler = createHandler(201);
  const server = createServer({ cert: pair.certificate, key: pair.key });
  // Clients close idle connections themselves.
  server.keepAliveTimeout = 0;
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('request', async (request, response) => {
    const chunks = await request.toArray();
    const { url: path = '', headers } = request;
    received.push({ path, headers, body: Buffer.concat(chunks) });
    handler(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    ca: authority.certificate,
    received,
    connections: () => connections,
    openConnections: () => sockets.size,
    respondWith: (next) => {
      handler = next;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
