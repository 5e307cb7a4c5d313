import { connect } from 'node:net';

const PROBE_TIMEOUT_MS = 1000;

/** Checks that an HTTP server responds with a 2xx status within a second. */
export async function isHttpOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

/** Checks that a server accepts TCP connections within a second. */
export function isAcceptingConnections(host: string, port: number): Promise<boolean> {
  return probeTcp(host, port, '', () => true);
}

/** Checks that a Redis replies to PING, which it rejects while it loads its data. */
export function isRedisReady(host: string, port: number): Promise<boolean> {
  return probeTcp(host, port, 'PING\r\n', (reply) => reply.startsWith('+PONG'));
}

/** Checks that a Redis replies at all, even with an error: it needs a password or loads its data. */
export function isRedisServer(host: string, port: number): Promise<boolean> {
  return probeTcp(host, port, 'PING\r\n', (reply) => /^[+-]/.test(reply));
}

function probeTcp(
  host: string,
  port: number,
  request: string,
  isExpected: (reply: string) => boolean,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PROBE_TIMEOUT_MS });
    const settle = (isSuccess: boolean) => {
      socket.destroy();
      resolve(isSuccess);
    };
    socket.once('error', () => settle(false));
    socket.once('timeout', () => settle(false));
    socket.once('close', () => settle(false));
    socket.once('data', (reply) => settle(isExpected(String(reply))));
    socket.once('connect', () => (request === '' ? settle(true) : socket.write(request)));
  });
}
