import { lookup } from 'node:dns';
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { isIP, type LookupFunction } from 'node:net';
import { onlyPublic } from './public-address.ts';

/** What a push service answered, or what kept it from answering. */
export type Answer =
  | { status: number; headers: IncomingHttpHeaders; text: string }
  /** `isStale`: the service may just have closed an idle link, which says nothing about it. */
  | { error: string; isStale: boolean };

/** Where requests to a host go. Absent: to the host itself, if its address is public. */
export type Detours = ReadonlyMap<string, { hostname: string; port: string }>;

/** Sends requests to push services, which are strangers: each is bounded in time and in what is read of it. */
export interface Poster {
  /** Never rejects; settles within the deadline. */
  post(endpoint: URL, headers: Record<string, string | number>, body: Buffer): Promise<Answer>;
  close(): void;
}

/** What a poster may be told. */
export interface PosterOptions {
  detours: Detours;
  /** PEM of the authority that signed the detours' certificates. */
  ca?: string | undefined;
  deadlineMs?: number;
  /** In place of the system's look-up of names. */
  look?: LookupFunction;
}

const DEADLINE_MS = 10_000;
/** An explanation is shorter. */
const MAX_ANSWER_BYTES = 4_096;
const MAX_HEADER_BYTES = 16_384;
/** A little above the window, so that no request waits for a link. */
const LINKS_PER_ORIGIN = 64;
const IDLE_LINK_MS = 30_000;
/** How a link ends that the other side closed while we began to use it again. */
const STALE = ['ECONNRESET', 'EPIPE'];

/** Makes a poster with links of its own. */
export function createPoster({ detours, ca, deadlineMs, look }: PosterOptions): Poster {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: LINKS_PER_ORIGIN,
    maxFreeSockets: LINKS_PER_ORIGIN,
    timeout: IDLE_LINK_MS,
  });
  const guarded = onlyPublic(look ?? (lookup as LookupFunction));

  function routeTo({ host, hostname }: URL): RequestOptions {
    const detour = detours.get(host);
    if (detour === undefined) return { hostname, lookup: guarded };
    // An address is no server name (RFC 6066, 3).
    const name = isIP(hostname) === 0 ? hostname : undefined;
    return { ...detour, headers: { host }, ca, ...(name && { servername: name }) };
  }

  return {
    post(endpoint, headers, body) {
      const route = routeTo(endpoint);
      const options: RequestOptions = {
        ...route,
        agent,
        method: 'POST',
        path: `${endpoint.pathname}${endpoint.search}`,
        headers: { ...route.headers, ...headers, 'content-length': body.length },
        maxHeaderSize: MAX_HEADER_BYTES,
      };
      return send(options, body, deadlineMs ?? DEADLINE_MS);
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

/** The beginning of an answer. What is longer, or breaks off, is cut: its status is known by then. */
function readSome(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  return new Promise((resolve) => {
    const finish = () => resolve(Buffer.concat(chunks).toString('utf8', 0, MAX_ANSWER_BYTES));
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > MAX_ANSWER_BYTES) response.destroy();
    });
    response.on('error', finish);
    response.on('close', finish);
    response.on('end', finish);
  });
}

function withCode(code: string): Error {
  return Object.assign(new Error(code), { code });
}
