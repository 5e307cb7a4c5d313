import { createHash, randomUUID, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer as createRawTlsServer } from 'node:tls';
import { encodeCheckinResponse, encodeDataMessage, encodeLoginResponse } from './mcs-frames.ts';

/** The host of the endpoints that Chromium makes. */
export const CHROMIUM_PUSH_HOST = 'jmt17.google.com';

export type GooglePushServer = Awaited<ReturnType<typeof startGooglePushServer>>;

interface Registration {
  sender: string;
  app: string;
  subtype: string;
}

/**
 * Simulates what a Chromium uses of Google: check-in, registration, the connection that delivers pushes, and the
 * endpoints that they are sent to.
 */
export async function startGooglePushServer() {
  const registrations = new Map<string, Registration>();
  const responseStatuses: number[] = [];
  let client: Socket | undefined;
  let stream = 1;

  const requestedRegistration: RequestListener = async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    if (request.url === '/checkin') return void response.end(encodeCheckinResponse(1n, 2n));
    const form = new URLSearchParams(String(body));
    const token = `T-${randomUUID()}`;
    registrations.set(token, {
      sender: form.get('sender') ?? '',
      app: form.get('app') ?? '',
      subtype: form.get('X-subtype') ?? '',
    });
    response.end(`token=${token}`);
  };

  const pushed: RequestListener = async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    const registration = registrations.get(request.url?.split('/').at(-1) ?? '');
    const status = registration === undefined ? 404 : 201;
    responseStatuses.push(status);
    response.writeHead(status).end();
    if (registration === undefined) return;
    stream += 1;
    client?.write(encodeDataMessage({ id: randomUUID(), ...registration, stream, body }));
  };

  const connections = createRawTlsServer((socket) => {
    client = socket;
    stream = 1;
    socket.on('error', () => undefined);
    // The first bytes are the login; later bytes of the browser are only receipts.
    socket.once('data', () => socket.write(encodeLoginResponse()));
    socket.resume();
  });
  const plain = createServer(requestedRegistration);
  const endpoints = createTlsServer({}, pushed);
  const servers = [plain, connections, endpoints];
  const sockets = await Promise.all(servers.map(listen));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  const [plainPort, tlsPort, push] = ports;
  return {
    /** `host:port` that is used instead of Google's. */
    host: `127.0.0.1:${push}`,
    /** From now on it can be reached over TLS. Returns the arguments of a Chromium that uses it. */
    useCertificate({ certificate, key }: { certificate: string; key: string }): string[] {
      for (const server of [connections, endpoints]) {
        server.setSecureContext({ cert: certificate, key });
      }
      const { publicKey } = new X509Certificate(certificate);
      const spki = publicKey.export({ type: 'spki', format: 'der' });
      return [
        `--gcm-checkin-url=http://127.0.0.1:${plainPort}/checkin`,
        `--gcm-registration-url=http://127.0.0.1:${plainPort}/register`,
        `--gcm-mcs-endpoint=https://127.0.0.1:${tlsPort}`,
        `--ignore-certificate-errors-spki-list=${createHash('sha256').update(spki).digest('base64')}`,
      ];
    },
    /** Statuses of the responses to pushes. */
    responseStatuses: (): readonly number[] => responseStatuses,
    async stop(): Promise<void> {
      await Promise.all(servers.map((server, at) => close(server, sockets[at] ?? new Set())));
    },
  };
}

/** @returns its open sockets, from now on */
async function listen(server: Server): Promise<Set<Socket>> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return sockets;
}

async function close(server: Server, sockets: Set<Socket>): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  for (const socket of sockets) socket.destroy();
  await closed;
}
