import type { IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { type Answer, createBeginning } from './answer.ts';
import type { Route } from './route.ts';

const MAX_HEADER_BYTES = 16_384;
/** A little above the window, so that no request waits for a link. */
const LINKS_PER_ORIGIN = 64;
const IDLE_LINK_MS = 30_000;

/** How a link ends that the other side closed while we began to use it again. */
const STALE = ['ECONNRESET', 'EPIPE'];

/** A request to a push service. */
export interface PushRequest {
  path: string;
  headers: Record<string, string | number>;
  body: Buffer;
  deadlineMs: number;
}

/** Posts over HTTP/1.1 with links that are kept. Never rejects; settles within the deadline. */
export function createHttp1(): {
  post(route: Route, request: PushRequest): Promise<Answer>;
  close(): void;
} {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: LINKS_PER_ORIGIN,
    maxFreeSockets: LINKS_PER_ORIGIN,
    timeout: IDLE_LINK_MS,
  });
  return {
    post({ authority, ...route }, { path, headers, body, deadlineMs }) {
      const options: RequestOptions = {
        ...route,
        agent,
        method: 'POST',
        path,
        headers: { host: authority, ...headers, 'content-length': body.length },
        maxHeaderSize: MAX_HEADER_BYTES,
      };
      return send(options, body, deadlineMs);
    },
    close: () => agent.destroy(),
  };
}

/** A redirect is an answer like any other: nothing is ever sent where a stranger points to. */
function send(options: RequestOptions, body: Buffer, deadlineMs: number): Promise<Answer> {
  return new Promise((resolve) => {
    const request = httpsRequest(options);
    const deadline = setTimeout(() => request.destroy(withCode('ETIMEDOUT')), deadlineMs);
    function settle(answer: Answer): void {
      clearTimeout(deadline);
      resolve(answer);
    }
    let isAnswered = false;
    request.once('response', async (response) => {
      isAnswered = true;
      const { statusCode: status = 0, headers } = response;
      settle({ status, headers, text: await readSome(response) });
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      // What breaks off the rest of an answer takes nothing back of its status.
      if (isAnswered) return;
      const isStale = request.reusedSocket && STALE.includes(error.code ?? '');
      settle({ error: error.code ?? error.message, isStale });
    });
    request.end(body);
  });
}

/** What is longer, or breaks off, is cut: its status is known by then. */
function readSome(response: IncomingMessage): Promise<string> {
  const beginning = createBeginning();
  return new Promise((resolve) => {
    const finish = () => resolve(beginning.text());
    response.on('data', (chunk: Buffer) => {
      if (!beginning.add(chunk)) response.destroy();
    });
    response.on('error', finish);
    response.on('close', finish);
    response.on('end', finish);
  });
}

function withCode(code: string): Error {
  return Object.assign(new Error(code), { code });
}
