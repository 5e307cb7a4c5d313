import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** A response and its latency from the first byte written. */
export interface HttpResponse {
  status: number;
  /** Seconds of the header `Retry-After`. */
  retryAfter?: number;
  body: string;
  durationMs: number;
}

/** Persistent connections to one HTTP server; each carries one request at a time. */
export interface HttpConnections {
  /** Sends a request of `httpRequest` over the next free connection. */
  send(request: Buffer): Promise<HttpResponse>;
  close(): void;
}

const HEADER_END = '\r\n\r\n';
/**
 * Less than the time after which the server closes an idle connection: a request that crosses the close would get no response.
 */
const MAX_IDLE_MS = 30_000;

/** Builds a complete request as bytes, so that sending it costs little CPU. */
export function encodeHttpRequest(method: string, url: URL, body = ''): Buffer {
  const headers = [
    `${method} ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(headers.join('\r\n') + HEADER_END + body);
}

/** Creates the pool. @param count maximum of connections, opened on first use */
export function createHttpConnections(url: URL, count: number): HttpConnections {
  const connections = Array.from({ length: count }, () => createHttpConnection(url));
  const free = [...connections];
  const waiters: ((connection: HttpConnection) => void)[] = [];
  return {
    async send(request) {
      const connection =
        free.pop() ?? (await new Promise<HttpConnection>((resolve) => waiters.push(resolve)));
      try {
        return await connection.send(request);
      } finally {
        const next = waiters.shift();
        if (next === undefined) free.push(connection);
        else next(connection);
      }
    },
    close() {
      for (const connection of connections) connection.close();
    },
  };
}

interface HttpConnection {
  send(request: Buffer): Promise<HttpResponse>;
  close(): void;
}

function createHttpConnection(url: URL): HttpConnection {
  let socket: Socket | undefined;
  let usedAt = performance.now();
  return {
    async send(request) {
      if (performance.now() - usedAt > MAX_IDLE_MS) socket?.destroy();
      if (socket === undefined || !socket.writable || socket.readableEnded) {
        socket = await open(url);
      }
      usedAt = performance.now();
      return sendAndReceive(socket, request);
    },
    close: () => socket?.destroy(),
  };
}

async function open({ hostname, port }: URL): Promise<Socket> {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  // A pending request fails with the close event.
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

function sendAndReceive(socket: Socket, request: Buffer): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let text = '';
    const done = (error?: Error) => {
      socket.off('data', take).off('close', cut);
      if (error) reject(error);
    };
    const cut = () => done(new Error('the server closed the connection'));
    const take = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const response = parseResponse(text);
      if (response === undefined) return;
      done();
      resolve({ ...response, durationMs: performance.now() - startedAt });
    };
    socket.on('data', take).on('close', cut);
    socket.write(request);
  });
}

/** Parses a response once it is complete. The servers always send its length. */
function parseResponse(text: string): Omit<HttpResponse, 'durationMs'> | undefined {
  const headerEnd = text.indexOf(HEADER_END);
  if (headerEnd < 0) return undefined;
  const head = text.slice(0, headerEnd);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
  const bodyStart = headerEnd + HEADER_END.length;
  if (text.length < bodyStart + length) return undefined;
  const retryAfter = /retry-after: (\d+)/i.exec(head)?.[1];
  return {
    status: Number(text.slice(9, 12)),
    ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
    body: text.slice(bodyStart, bodyStart + length),
  };
}
