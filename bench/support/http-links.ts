import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** An answer, and how long it took from the first byte written. */
export interface HttpAnswer {
  status: number;
  body: string;
  ms: number;
}

/** Links to one HTTP server, each kept open and used for one request at a time. */
export interface HttpLinks {
  /** Sends a request made by `httpRequest` over the next free link. */
  send(request: Buffer): Promise<HttpAnswer>;
  close(): void;
}

const HEAD_END = '\r\n\r\n';

/** A whole request as bytes, so that sending it costs the bench next to nothing. */
export function httpRequest(method: string, url: URL, body = ''): Buffer {
  const head = [
    `${method} ${url.pathname}${url.search} HTTP/1.1`,
    `Host: ${url.host}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(head.join('\r\n') + HEAD_END + body);
}

/** So many links at most; each is opened when it is needed first. */
export function createHttpLinks(url: URL, count: number): HttpLinks {
  const links = Array.from({ length: count }, () => createLink(url));
  const free = [...links];
  const waiting: ((link: Link) => void)[] = [];
  return {
    async send(request) {
      const link = free.pop() ?? (await new Promise<Link>((resolve) => waiting.push(resolve)));
      try {
        return await link.send(request);
      } finally {
        const next = waiting.shift();
        if (next === undefined) free.push(link);
        else next(link);
      }
    },
    close() {
      for (const link of links) link.close();
    },
  };
}

interface Link {
  send(request: Buffer): Promise<HttpAnswer>;
  close(): void;
}

function createLink(url: URL): Link {
  let socket: Socket | undefined;
  return {
    async send(request) {
      // The server closes links that nobody uses.
      if (socket === undefined || !socket.writable || socket.readableEnded) {
        socket = await open(url);
      }
      return exchange(socket, request);
    },
    close: () => socket?.destroy(),
  };
}

async function open({ hostname, port }: URL): Promise<Socket> {
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  // Whoever waits for an answer learns of it by the close.
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  return socket;
}

function exchange(socket: Socket, request: Buffer): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const startedAt = performance.now();
    let text = '';
    const done = (error?: Error) => {
      socket.off('data', take).off('close', cut);
      if (error) reject(error);
    };
    const cut = () => done(new Error('the server closed the link'));
    const take = (chunk: Buffer) => {
      text += chunk.toString('latin1');
      const answer = parse(text);
      if (answer === undefined) return;
      done();
      resolve({ ...answer, ms: performance.now() - startedAt });
    };
    socket.on('data', take).on('close', cut);
    socket.write(request);
  });
}

/** The answer once it is there whole; our servers always tell its length. */
function parse(text: string): Omit<HttpAnswer, 'ms'> | undefined {
  const headEnd = text.indexOf(HEAD_END);
  if (headEnd < 0) return undefined;
  const length = Number(/content-length: (\d+)/i.exec(text.slice(0, headEnd))?.[1] ?? 0);
  const bodyAt = headEnd + HEAD_END.length;
  if (text.length < bodyAt + length) return undefined;
  return { status: Number(text.slice(9, 12)), body: text.slice(bodyAt, bodyAt + length) };
}
