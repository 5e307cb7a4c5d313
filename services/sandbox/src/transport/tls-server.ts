import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { KeyPair } from '@carillon/runtime/certificates';
import type { FaultConfig } from '../response/fault-config.ts';
import {
  createHttp1Exchange,
  createHttp2Exchange,
  type DestroyConnection,
  type Exchange,
} from './exchange.ts';

/** Default maximum of concurrent streams: close to the limits of Apple and Google. */
const DEFAULT_STREAM_LIMIT = 1_000;
const noop = (): void => undefined;

/** Listen address of a server. */
export interface TcpAddress {
  host: string;
  port: number;
}

export interface TlsServerOptions {
  /** Certificate and key of the server. */
  server: KeyPair;
  ca: string;
  /** Requests a client certificate. */
  requestCertificate?: boolean;
  /** Accepts HTTP/1.1 too. */
  allowHttp1: boolean;
  faultConfig: Readonly<FaultConfig>;
  onConnection(): void;
}

/** An HTTP/2 server over TLS with fault injection. */
export interface TlsServer {
  http: Http2SecureServer;
  destroyConnection: DestroyConnection;
  /** @returns the port */
  listen(address: TcpAddress): Promise<number>;
  /** Sends the limit of concurrent streams to every client; null means the default. */
  updateStreamLimit(limit: number | null): void;
  /** Destroys all connections. */
  stop(): Promise<void>;
}

/** Creates a server without request handlers. */
export function createTlsServer(options: TlsServerOptions): TlsServer {
  const { server, ca, allowHttp1, faultConfig, requestCertificate = false } = options;
  const sockets = new Map<number | undefined, Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const currentSettings = () => ({
    maxConcurrentStreams: faultConfig.streamLimit ?? DEFAULT_STREAM_LIMIT,
  });
  const http = createSecureServer({
    cert: server.certificate,
    key: server.key,
    ca,
    requestCert: requestCertificate,
    // The provider rejects an invalid certificate with its own error response.
    rejectUnauthorized: false,
    allowHTTP1: allowHttp1,
    settings: currentSettings(),
  });
  const destroyConnection: DestroyConnection = (remotePort) => sockets.get(remotePort)?.destroy();

  http.on('connection', (socket: Socket) => {
    const { remotePort } = socket;
    sockets.set(remotePort, socket);
    socket.on('error', noop).once('close', () => sockets.delete(remotePort));
    if (faultConfig.refuse) socket.destroy();
  });
  http.on('secureConnection', options.onConnection);
  http.on('session', (session) => {
    sessions.add(session);
    session.on('error', noop).once('close', () => sessions.delete(session));
    if (faultConfig.streamLimit !== null) session.settings(currentSettings());
  });
  for (const event of ['tlsClientError', 'sessionError', 'clientError']) http.on(event, noop);

  return {
    http,
    destroyConnection,
    listen: (address) =>
      new Promise((resolve, reject) => {
        http.once('error', reject);
        http.listen(address, () => {
          http.off('error', reject);
          resolve((http.address() as AddressInfo).port);
        });
      }),
    updateStreamLimit: () => {
      // A destroyed session stays in the set until its close event.
      for (const session of sessions) if (!session.destroyed) session.settings(currentSettings());
    },
    stop: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        for (const socket of sockets.values()) socket.destroy();
      }),
  };
}

/** Creates the exchange of a request over either version of HTTP. */
export function createExchange(
  request: Http2ServerRequest | IncomingMessage,
  response: Http2ServerResponse | ServerResponse,
  destroyConnection: DestroyConnection,
): Exchange {
  return 'stream' in response && 'stream' in request
    ? createHttp2Exchange(response.stream, destroyConnection)
    : createHttp1Exchange(
        request as IncomingMessage,
        response as ServerResponse,
        destroyConnection,
      );
}
