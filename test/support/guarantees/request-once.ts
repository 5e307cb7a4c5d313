import { request } from 'node:http';

/** A response, or 0 as status when the connection broke instead. */
export interface PlainResponse {
  status: number;
  text: string;
  retryAfter: string | undefined;
  tookMs: number;
}

/** A request on a connection of its own, which no process can have accepted before. */
export interface RequestOptions {
  method: string;
  url: URL;
  headers?: Record<string, string>;
  body?: string;
}

/** Sends a request once; every outcome is a result. */
export function requestOnce({
  method,
  url,
  headers,
  body,
}: RequestOptions): Promise<PlainResponse> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const settle = (status: number, text: string, retryAfter?: string) =>
      resolve({ status, text, retryAfter, tookMs: performance.now() - startedAt });
    const fail = () => settle(0, '');
    const json = body === undefined ? {} : { 'content-type': 'application/json' };
    const clientRequest = request(url, { method, agent: false, headers: { ...json, ...headers } });
    clientRequest.on('error', fail).on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk)).on('error', fail);
      response.on('end', () => {
        const { statusCode = 0, headers: received } = response;
        settle(statusCode, Buffer.concat(chunks).toString(), received['retry-after']);
      });
    });
    clientRequest.end(body);
  });
}
