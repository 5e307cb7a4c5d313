import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';
import { LONGEST_FRAME_BYTES } from './frames.ts';
import type { Stranger } from './strangers.ts';
import type { Wire } from './wire.ts';

const MAX_HEADER_BYTES = 8_192;
/** Status codes of a close (RFC 6455, 7.4.1). */
const GOING_AWAY = 1_001;
const CAN_NOT_TAKE = 1_003;

/** Takes links over WebSocket, on any path; behind a proxy that ends TLS it is port 443. */
export interface WebSocketDoor {
  enter(socket: Socket, stranger: Stranger): void;
  stop(): void;
}

/** @param upgraded is called when MQTT can begin */
export function createWebSocketDoor(upgraded: (stranger: Stranger) => void): WebSocketDoor {
  const strangers = new WeakMap<Duplex, Stranger>();
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    // Compression costs 300 KB a link.
    perMessageDeflate: false,
    maxPayload: LONGEST_FRAME_BYTES,
    // MQTT-6.0.0-3, -4: the client offers `mqtt`, and gets it. Without an offer it gets none.
    handleProtocols: (offered) => (offered.has('mqtt') ? 'mqtt' : false),
  });
  const server = createServer({ maxHeaderSize: MAX_HEADER_BYTES }, answerPlainRequest);
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const stranger = strangers.get(socket);
    if (stranger === undefined) return void socket.destroy();
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      stranger.wire = new WebSocketWire(webSocket);
      upgraded(stranger);
    });
  });

  return {
    enter(socket, stranger) {
      strangers.set(socket, stranger);
      server.emit('connection', socket);
      socket.resume();
    },
    stop: () => sockets.close(),
  };
}

/** Whoever comes with a browser should read what this is. */
function answerPlainRequest(_request: IncomingMessage, response: ServerResponse): void {
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

/** One message for each packet: the gateway writes whole packets. */
class WebSocketWire implements Wire {
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
    // It flows from the beginning.
  }

  on(event: 'data', listener: (bytes: Buffer) => void): void;
  on(event: 'close', listener: () => void): void;
  on(event: 'data' | 'close', listener: (given: never) => void): void {
    if (event === 'close') {
      this.#webSocket.on('close', listener as () => void);
      return;
    }
    this.#webSocket.on('message', (bytes, isBinary) => {
      // MQTT-6.0.0-1: anything but binary frames ends the link.
      if (isBinary) (listener as (bytes: unknown) => void)(bytes);
      else this.#webSocket.close(CAN_NOT_TAKE);
    });
  }
}

function ignore(): void {}
