import type { ClientRequest } from 'node:http';
import { Agent, request as httpsRequest, type RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { KEEP_ALIVE, MAX_HEADER_BYTES, waitForResponse } from '@carillon/runtime/http1';
import type { MaySend } from '../../deliver/provider.ts';
import type { ConnectTarget } from './connect-target.ts';
import { MAX_BODY_BYTES, type PushServiceResponse } from './response.ts';

/** Maximum connections to an origin: a few more than the window, so that no request waits for a connection. */
const MAX_CONNECTIONS_PER_ORIGIN = 64;
/** Maximum idle connections to all origins: endpoints come from devices, and may have any number of hosts. */
const MAX_IDLE_CONNECTIONS = 256;

/** A request to a push service. */
export interface PushRequest {
  path: string;
  headers: Record<string, string | number>;
  body: Buffer;
  maySend: MaySend;
  deadlineMs: number;
}

/** Agent that keeps few idle connections. A limit of all connections would have an origin's requests wait for others. */
class BoundedAgent extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    let idle = 0;
    for (const sockets of Object.values(this.freeSockets)) idle += sockets?.length ?? 0;
    const mayKeep: unknown = super.keepSocketAlive(socket);
    // The agent closes the connection if this is false.
    return idle < MAX_IDLE_CONNECTIONS && mayKeep !== false;
  }
}

/** Creates a client with keep-alive connections. Its requests never reject, and settle within the deadline. */
export function createHttp1Client(): {
  post(target: ConnectTarget, request: PushRequest): Promise<PushServiceResponse>;
  close(): void;
} {
  const agent = new BoundedAgent({
    ...KEEP_ALIVE,
    maxSockets: MAX_CONNECTIONS_PER_ORIGIN,
    maxFreeSockets: MAX_CONNECTIONS_PER_ORIGIN,
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

/** Sends one request, unless it may not be sent any more when it has a connection. */
async function send(
  options: RequestOptions,
  { body, maySend, deadlineMs }: Omit<PushRequest, 'path' | 'headers'>,
): Promise<PushServiceResponse> {
  const request = httpsRequest(options);
  let isWithheld = false;
  onceConnected(request, () => {
    if (maySend()) return void request.end(body);
    isWithheld = true;
    request.destroy();
  });
  const response = await waitForResponse(request, { deadlineMs, maxBodyBytes: MAX_BODY_BYTES });
  if (isWithheld) return 'withheld';
  if ('error' in response) return response;
  const { status, headers } = response;
  return { status, headers, text: (await response.body).toString() };
}

/** Calls back when the request has a connection. Nothing is written before its end, so the caller ends it then. */
function onceConnected(request: ClientRequest, onConnected: () => void): void {
  request.once('socket', (socket) => {
    if (socket.connecting) socket.once('secureConnect', onConnected);
    else onConnected();
  });
}
