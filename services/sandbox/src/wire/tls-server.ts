import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2';
import type { AddressInfo, Socket } from 'node:net';
import type { Conduct } from '../answer/conduct.ts';
import type { KeyPair } from '../files/certificates.ts';
import { type Cut, type Exchange, overHttp1, overHttp2 } from './exchange.ts';

/** Apple's and Google's limits are near it. */
const STREAM_LIMIT = 1_000;
const ignore = (): void => undefined;

/** Where a server listens. */
export interface At {
  host: string;
  port: number;
}

export interface TlsServerOptions {
  /** Certificate and key of the server. */
  server: KeyPair;
  ca: string;
  /** Ask clients for a certificate. */
  askCertificate?: boolean;
  /** Answer HTTP/1.1 too. */
  allowHttp1: boolean;
  conduct: Readonly<Conduct>;
  onConnection(): void;
}

/** A server of HTTP/2 over TLS that can be made to misbehave. */
export interface TlsServer {
  http: Http2SecureServer;
  cut: Cut;
  /** @returns the port */
  listen(at: At): Promise<number>;
  /** Tells every client how many streams it may have at once; null: as usual. */
  limitStreams(limit: number | null): void;
  /** Cuts all connections. */
  stop(): Promise<void>;
}

/** Makes a server that does nothing with requests yet. */
export function createTlsServer(options: TlsServerOptions): TlsServer {
  const { server, ca, allowHttp1, conduct, askCertificate = false } = options;
  const sockets = new Map<number | undefined, Socket>();
  const sessions = new Set<ServerHttp2Session>();
  const limited = () => ({ maxConcurrentStreams: conduct.streamLimit ?? STREAM_LIMIT });
  const http = createSecureServer({
    cert: server.certificate,
    key: server.key,
    ca,
    requestCert: askCertificate,
    // What is wrong with a certificate is told in the provider's own words.
    rejectUnauthorized: false,
    allowHTTP1: allowHttp1,
    settings: limited(),
  });
  const cut: Cut = (remotePort) => sockets.get(remotePort)?.destroy();

  http.on('connection', (socket: Socket) => {
    const { remotePort } = socket;
    sockets.set(remotePort, socket);
    socket.on('error', ignore).once('close', () => sockets.delete(remotePort));
    if (conduct.refuse) socket.destroy();
  });
  http.on('secureConnection', options.onConnection);
  http.on('session', (session) => {
    sessions.add(session);
    session.on('error', ignore).once('close', () => sessions.delete(session));
    if (conduct.streamLimit !== null) session.settings(limited());
  });
  for (const event of ['tlsClientError', 'sessionError', 'clientError']) http.on(event, ignore);

  return {
    http,
    cut,
    listen: (at) =>
      new Promise((resolve, reject) => {
        http.once('error', reject);
        http.listen(at, () => {
          http.off('error', reject);
          resolve((http.address() as AddressInfo).port);
        });
      }),
    limitStreams: () => {
      // One that was cut is among them until it tells of its close.
      for (const session of sessions) if (!session.destroyed) session.settings(limited());
    },
    stop: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        for (const socket of sockets.values()) socket.destroy();
      }),
  };
}

/** The way back of a request that came over either version of HTTP. */
export function exchangeOf(
  request: Http2ServerRequest | IncomingMessage,
  response: Http2ServerResponse | ServerResponse,
  cut: Cut,
): Exchange {
  return 'stream' in response && 'stream' in request
    ? overHttp2(response.stream, cut)
    : overHttp1(request as IncomingMessage, response as ServerResponse, cut);
}
