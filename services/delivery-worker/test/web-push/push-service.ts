import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { makeAuthority, makeServerCertificate } from '../../../supervisor/src/certificates.ts';

/** A request that a push service got. */
export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

/** Answers a request that was read to its end. */
export type Answering = (request: IncomingMessage, response: ServerResponse) => void;

/** A push service over TLS that answers as told. */
export interface PushService {
  /** `127.0.0.1:port` */
  host: string;
  /** PEM. */
  ca: string;
  received: Received[];
  /** Links so far. */
  links(): number;
  answer(how: Answering): void;
  stop(): Promise<void>;
}

/** Answers with a status, headers and a body. */
export function say(status: number, headers: Record<string, string> = {}, body = ''): Answering {
  return (_request, response) => response.writeHead(status, headers).end(body);
}

/** Starts a push service that takes everything. @param names of its certificate, besides 127.0.0.1 */
export async function startPushService(names: readonly string[] = []): Promise<PushService> {
  const authority = await makeAuthority(2);
  const pair = await makeServerCertificate(authority, ['127.0.0.1', ...names], 1);
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  let links = 0;
  let answering = say(201);
  const server = createServer({ cert: pair.certificate, key: pair.key });
  server.on('connection', (socket: Socket) => {
    links += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.on('request', async (request, response) => {
    const chunks = await request.toArray();
    const { url: path = '', headers } = request;
    received.push({ path, headers, body: Buffer.concat(chunks) });
    answering(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    ca: authority.certificate,
    received,
    links: () => links,
    answer: (how) => {
      answering = how;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
