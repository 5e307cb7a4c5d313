import { once } from 'node:events';
import { connect } from 'node:http2';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** Connections, and requests on each of them, that took all descriptors of a proxy without limits. */
const CONNECTIONS = 300;
const REQUESTS = 100;

/**
 * Opens HTTP/2 requests of one address that are never finished.
 *
 * @param localAddress a loopback address of the client
 * @returns a function that closes them
 */
export async function leaveRequestsUnfinished(
  port: number,
  ca: string,
  localAddress: string,
): Promise<() => void> {
  const host = '127.0.0.1';
  const createConnection = () =>
    connectTls({ socket: connectTcp({ host, port, localAddress }), ca, ALPNProtocols: ['h2'] });
  const sessions = Array.from({ length: CONNECTIONS }, () =>
    connect(`https://${host}:${port}`, { createConnection }).on('error', () => undefined),
  );
  await Promise.all(sessions.map((session) => once(session, 'connect')));
  const headers = { ':method': 'POST', ':path': '/register', 'content-length': '100' };
  const requests = sessions.flatMap((session) =>
    Array.from({ length: REQUESTS }, () => session.request(headers).on('error', () => undefined)),
  );
  for (const request of requests) request.write('{');
  return () => {
    for (const session of sessions) session.destroy();
  };
}
