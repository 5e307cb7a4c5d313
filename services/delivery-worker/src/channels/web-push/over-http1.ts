import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import { resultWithin } from '@carillon/core/with-timeout';
import type { MaySend } from '../../deliver/provider.ts';
import type { ConnectTarget } from './connect-target.ts';
import { createBodyPrefix, type PushServiceResponse } from './response.ts';

const MAX_HEADER_BYTES = 16_384;
/** A little above the window, so that no request waits for a connection. */
const MAX_CONNECTIONS_PER_ORIGIN = 64;
const IDLE_TIMEOUT_MS = 30_000;

/** Error codes of a kept connection that the server closed just before it was used again. */
const STALE_CONNECTION_CODES = ['ECONNRESET', 'EPIPE'];

/** A request to a push service. */
export interface PushRequest {
  path: string;
  headers: Record<string, string | number>;
  body: Buffer;
  maySend: MaySend;
  deadlineMs: number;
}

/** Creates a client with keep-alive connections. Its requests never reject, and settle within the deadline. */
export function createHttp1Client(): {
  post(target: ConnectTarget, request: PushRequest): Promise<PushServiceResponse>;
  close(): void;
} {
  const agent = new Agent({
    keepAlive: true,
    maxSockets: MAX_CONNECTIONS_PER_ORIGIN,
    maxFreeSockets: MAX_CONNECTIONS_PER_ORIGIN,
    timeout: IDLE_TIMEOUT_MS,
  });
  return {
    post({ authority, ...target }, pushRequest) {
      const { path, headers, body } = pushRequest;
      const options: RequestOptions = {
        ...target,
        agent,
        method: 'POST',
        path,
        headers: { host: authority, ...headers, 'content-length': body.length },
        maxHeaderSize: MAX_HEADER_BYTES,
      };
      return send(options, pushRequest);
    },
    close: () => agent.destroy(),
  };
}

/** Sends one request. Redirects are not followed: nothing is sent to a host that a response names. */
async function send(
  options: RequestOptions,
  { body, maySend, deadlineMs }: Omit<PushRequest, 'path' | 'headers'>,
): Promise<PushServiceResponse> {
  const request = httpsRequest(options);
  const responding = new Promise<PushServiceResponse>((resolve) => {
    let hasResponse = false;
    request.once('response', async (response) => {
      hasResponse = true;
      const { statusCode: status = 0, headers } = response;
      resolve({ status, headers, text: await readBodyPrefix(response) });
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      // An error after the headers doesn't change the status.
      if (hasResponse) return;
      const isStale = request.reusedSocket && STALE_CONNECTION_CODES.includes(error.code ?? '');
      resolve({ error: error.code ?? error.message, isStale });
    });
    onceConnected(request, () => {
      if (maySend()) return void request.end(body);
      resolve('withheld');
      request.destroy();
    });
  });
  const response = await resultWithin(responding, deadlineMs, undefined);
  // After the headers this ends the body, and the response keeps its status.
  if (response === undefined) request.destroy(createErrorWithCode('ETIMEDOUT'));
  return responding;
}

/** Calls back when the request has a connection. Nothing is written before its end, so the caller ends it then. */
function onceConnected(request: ClientRequest, onConnected: () => void): void {
  request.once('socket', (socket) => {
    if (socket.connecting) socket.once('secureConnect', onConnected);
    else onConnected();
  });
}

/** Reads the first part of a body; a longer or incomplete body is cut, since its status is known. */
function readBodyPrefix(response: IncomingMessage): Promise<string> {
  const bodyPrefix = createBodyPrefix();
  return new Promise((resolve) => {
    const finish = () => resolve(bodyPrefix.text());
    response.on('data', (chunk: Buffer) => {
      if (!bodyPrefix.append(chunk)) response.destroy();
    });
    response.on('error', finish);
    response.on('close', finish);
    response.on('end', finish);
  });
}

function createErrorWithCode(code: string): Error {
  return Object.assign(new Error(code), { code });
}
