import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { http } from '@carillon/runtime/node-http';
import { WebSocket, WebSocketServer } from 'ws';
import { MAX_FRAME_BYTES } from './frames.ts';
import { isOriginAllowed, type Origins } from './origins.ts';
import type { PendingConnection } from './pending-connections.ts';
import type { Transport } from './transport.ts';

const MAX_HEADER_BYTES = 8_192;
/** Close status codes (RFC 6455, 7.4.1). */
const GOING_AWAY = 1_001;
const UNSUPPORTED_DATA = 1_003;

/** Subprotocols, the preferred one first. */
const SUBPROTOCOLS = ['mqtt', 'mqttv3.1'];

const FORBIDDEN = 'HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

const BAD_REQUEST = 'HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n';
const TOO_LARGE = 'HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\n\r\n';
/** Code of the HTTP parser. */
const HEADER_OVERFLOW = 'HPE_HEADER_OVERFLOW';

type ClientError = Error & { code?: string; rawPacket?: Buffer };

/**
 * Accepts WebSocket connections on any path.
 *
 * @param on.upgraded is called when MQTT can start
 * @param on.noHttp is called with bytes that are no HTTP
 * @param on.foreignOrigin is called when a web page of another origin is rejected
 */
export function createWebSocketListener(
  origins: Origins,
  on: {
    upgraded(pending: PendingConnection): void;
    noHttp(bytes: Buffer, address: string): void;
    foreignOrigin(): void;
  },
) {
  const pendingBySocket = new WeakMap<Duplex, PendingConnection>();
  const webSocketServer = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // Compression costs 300 KB of memory per connection.
    perMessageDeflate: false,
    maxPayload: MAX_FRAME_BYTES,
    // MQTT-6.0.0-3, -4: a client that offers `mqtt` gets it; one that offers no subprotocol gets none. Clients of MQTT 3.1
    // offer `mqttv3.1` and close a connection that does not have it.
    handleProtocols: (protocols) => SUBPROTOCOLS.find((one) => protocols.has(one)) ?? false,
  });
  const httpServer = http.createServer({ maxHeaderSize: MAX_HEADER_BYTES }, respondUpgradeRequired);
  httpServer.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const pending = pendingBySocket.get(socket);
    if (pending === undefined) return void socket.destroy();
    if (!isOriginAllowed(origins, request.headers)) {
      on.foreignOrigin();
      return void socket.end(FORBIDDEN);
    }
    webSocketServer.handleUpgrade(request, socket, head, (webSocket) => {
      pending.transport = new WebSocketTransport(webSocket);
      on.upgraded(pending);
    });
  });

  httpServer.on('clientError', (error: ClientError, socket: Duplex) => {
    const pending = pendingBySocket.get(socket);
    if (error.rawPacket !== undefined) on.noHttp(error.rawPacket, pending?.address ?? '');
    // As Node responds without this listener.
    if (socket.writable) socket.write(error.code === HEADER_OVERFLOW ? TOO_LARGE : BAD_REQUEST);
    socket.destroy();
  });

  return {
    accept(socket: Socket, pending: PendingConnection): void {
      pendingBySocket.set(socket, pending);
      httpServer.emit('connection', socket);
      socket.resume();
    },
    stop: (): void => webSocketServer.close(),
  };
}

/** Responds to a plain HTTP request, for instance of a browser, with 426. */
function respondUpgradeRequired(_request: IncomingMessage, response: ServerResponse): void {
  const text = 'This port speaks MQTT over WebSocket.\n';
  response
    .writeHead(426, {
      'content-type': 'text/plain',
      'content-length': text.length,
      upgrade: 'websocket',
      connection: 'close, upgrade',
    })
    .end(text);
}

/** Sends each write as one binary message: the gateway writes whole packets. */
class WebSocketTransport implements Transport {
  readonly #webSocket: WebSocket;

  constructor(webSocket: WebSocket) {
    this.#webSocket = webSocket;
    webSocket.on('error', ignore);
  }

  get destroyed(): boolean {
    return this.#webSocket.readyState === WebSocket.CLOSED;
  }

  get writableLength(): number {
    return this.#webSocket.bufferedAmount;
  }

  write(bytes: Buffer): void {
    this.#webSocket.send(bytes);
  }

  end(bytes?: Buffer): void {
    if (bytes !== undefined) this.#webSocket.send(bytes);
    this.#webSocket.close(GOING_AWAY);
  }

  destroy(): void {
    this.#webSocket.terminate();
  }

  resume(): void {
    // A WebSocket emits messages from the start.
  }

  on(event: 'data', listener: (bytes: Buffer) => void): void;
  on(event: 'close', listener: () => void): void;
  on(event: 'data' | 'close', listener: (argument: never) => void): void {
    if (event === 'close') {
      this.#webSocket.on('close', listener as () => void);
      return;
    }
    this.#webSocket.on('message', (bytes, isBinary) => {
      // MQTT-6.0.0-1: a frame that is not binary closes the connection.
      if (isBinary) (listener as (bytes: unknown) => void)(bytes);
      else this.#webSocket.close(UNSUPPORTED_DATA);
    });
  }
}

function ignore(): void {}
