import { request } from 'node:http';
import { connect } from 'node:net';

/** A response whose body was read as JSON. */
export interface RawResponse {
  status: number;
  json: Record<string, unknown>;
  requestId?: string;
}

export interface RawRequest {
  method?: string;
  /** Path and query, written to the wire as they are. */
  path: string;
  headers?: Record<string, string | number>;
  body?: string | Buffer;
  /** Only the headers go out; the server must respond without having the body. */
  keepBodyBack?: boolean;
}

/**
 * Sends a request on a connection of its own, without any correction by the client.
 *
 * @throws when the response's body is not JSON, or the connection is cut before there is a response.
 */
export function sendRawRequest(base: string, expected: RawRequest): Promise<RawResponse> {
  const { method = 'POST', path, headers = {}, body, keepBodyBack = false } = expected;
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const sent = request({ hostname, port, method, path, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        sent.destroy();
        const requestId = response.headers['x-request-id'];
        try {
          resolve({
            status: response.statusCode ?? 0,
            json: JSON.parse(Buffer.concat(chunks).toString()),
            ...(typeof requestId === 'string' && { requestId }),
          });
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.on('error', reject);
    if (keepBodyBack) sent.flushHeaders();
    else sent.end(body);
  });
}

/** Writes bytes that need not be HTTP. Returns all that the server sends until it closes the connection. */
export function sendRawBytes(base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes));
    let heard = '';
    socket.on('data', (chunk) => {
      heard += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(heard));
  });
}
