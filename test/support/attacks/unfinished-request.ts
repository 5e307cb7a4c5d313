import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { ApiResponse } from '../stack/call-api.ts';

/** An HTTP request of which so far only a part was sent. */
export interface UnfinishedRequest {
  socket: Socket;
  /** The response so far. */
  text(): string;
  /** The connection broke in another way than by its end. */
  failed(): boolean;
}

/**
 * Opens a request that announces a body and sends less of it.
 *
 * @param announced its Content-Length
 * @param sent bytes that are sent at once, JSON as far as it goes
 * @param readsLater nothing is read before all of them are written
 */
export async function openUnfinishedRequest(
  base: string,
  path: string,
  {
    contentLength,
    sent,
    isReadingLater = false,
  }: { contentLength: number; sent: number; isReadingLater?: boolean },
): Promise<UnfinishedRequest> {
  const request = await openConnection(base);
  const { socket } = request;
  const { host } = new URL(base);
  const head = `POST ${path} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n`;
  socket.write(`${head}Content-Length: ${contentLength}\r\n\r\n`);
  if (isReadingLater) socket.pause();
  socket.write(partialBody(sent), () => void socket.resume());
  return request;
}

/** Opens a request whose head ends in the middle of a line. */
export async function openUnfinishedHead(base: string): Promise<UnfinishedRequest> {
  const request = await openConnection(base);
  request.socket.write('POST /devices/auth HTTP/1.1\r\nHost:');
  return request;
}

async function openConnection(base: string): Promise<UnfinishedRequest> {
  const { hostname, port } = new URL(base);
  const socket = connect(Number(port), hostname);
  let text = '';
  let hasFailed = false;
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  socket.on('error', () => {
    hasFailed = true;
  });
  await once(socket, 'connect');
  return { socket, text: () => text, failed: () => hasFailed };
}

/** Closes requests however far they have come. */
export function closeAll(requests: readonly UnfinishedRequest[]): void {
  for (const { socket } of requests) socket.destroy();
}

/** Parses the response in the bytes read; undefined while it is incomplete. */
export function parseResponse(text: string): ApiResponse<Record<string, unknown>> | undefined {
  const [head = '', body = ''] = text.split('\r\n\r\n');
  const [first = '', ...lines] = head.split('\r\n');
  const headers = new Headers(lines.map((line) => line.split(': ', 2) as [string, string]));
  if (!(Buffer.byteLength(body) >= Number(headers.get('content-length') ?? Number.NaN))) {
    return undefined;
  }
  const status = Number(first.split(' ')[1]);
  return { status, headers, text: body, json: JSON.parse(body) as Record<string, unknown> };
}

function partialBody(bytes: number): Buffer {
  const text = Buffer.alloc(bytes, 'x');
  text.write('{"x":"'.slice(0, bytes));
  return text;
}
