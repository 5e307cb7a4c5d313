import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** After a link that was not opened, as clients wait by default; after one that broke: not at all. */
const RETRY_MS = 1_000;

/** Events of a minimal device. */
export interface DeviceEvents {
  connected(): void;
  disconnected(): void;
  arrived(token: string, payload: string): void;
}

export interface DeviceAddress {
  host: string;
  port: number;
  /** Over TLS, whoever the server says it is. */
  isSecure?: boolean;
}

/** As little of an MQTT device as can be, so that ten thousand fit beside a stack on two cores. */
export class MinimalDevice {
  readonly token: string;
  readonly #connect: Buffer;
  readonly #at: DeviceAddress;
  readonly #on: DeviceEvents;
  #socket: Socket | undefined;
  #rest: Buffer | undefined;
  #isConnected = false;
  #isCut = false;
  #isStopped = false;

  constructor(
    { token, auth }: { token: string; auth: string },
    at: DeviceAddress,
    on: DeviceEvents,
  ) {
    this.token = token;
    this.#connect = encodeConnect(token, auth);
    this.#at = at;
    this.#on = on;
  }

  open(): void {
    const { host, port, isSecure = false } = this.#at;
    const socket = isSecure
      ? connectTls({ host, port, rejectUnauthorized: false })
      : connect({ host, port, noDelay: true });
    this.#socket = socket;
    this.#rest = undefined;
    socket.write(this.#connect);
    socket.on('data', (bytes) => this.#read(bytes));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#closed());
  }

  /** Breaks the link without a word; the device comes back at once. */
  cut(): void {
    if (this.#isConnected) {
      // Counted now: who asks right after the cut must not be told of links that are as good as gone.
      this.#isConnected = false;
      this.#isCut = true;
      this.#on.disconnected();
    }
    if (this.#at.isSecure === true) this.#socket?.destroy();
    else this.#socket?.resetAndDestroy();
  }

  /** Reads nothing more of this link, which stays open. */
  freeze(): void {
    this.#socket?.pause();
  }

  thaw(): void {
    this.#socket?.resume();
  }

  stop(): void {
    this.#isStopped = true;
    this.#socket?.destroy();
  }

  #closed(): void {
    const wasConnected = this.#isConnected;
    const comesBackAtOnce = wasConnected || this.#isCut;
    this.#isConnected = false;
    this.#isCut = false;
    if (wasConnected) this.#on.disconnected();
    if (this.#isStopped) return;
    if (comesBackAtOnce) setImmediate(() => this.open());
    else setTimeout(() => this.open(), RETRY_MS);
  }

  #read(chunk: Buffer): void {
    const bytes = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    let at = 0;
    for (let size = packetSize(bytes, at); size > 0; size = packetSize(bytes, at)) {
      this.#take(bytes.subarray(at, at + size));
      at += size;
    }
    this.#rest = at < bytes.length ? Buffer.from(bytes.subarray(at)) : undefined;
  }

  #take(packet: Buffer): void {
    const type = (packet[0] ?? 0) >> 4;
    if (type === 2 && packet[3] === 0) {
      this.#isConnected = true;
      this.#on.connected();
    }
    if (type !== 3) return;
    let body = 1;
    while ((packet[body] ?? 0) >= 0x80) body += 1;
    const idAt = body + 3 + packet.readUInt16BE(body + 1);
    this.#socket?.write(Buffer.from([0x40, 2, packet[idAt] ?? 0, packet[idAt + 1] ?? 0]));
    this.#on.arrived(this.token, packet.toString('utf8', idAt + 2));
  }
}

/** Size of the packet at `at`, its header included; 0 while it isn't there whole. */
function packetSize(bytes: Buffer, at: number): number {
  let length = 0;
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[at + 1 + i];
    if (byte === undefined) return 0;
    length += (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return at + 2 + i + length <= bytes.length ? 2 + i + length : 0;
  }
  return 0;
}

/** MQTT 3.1.1, 3.1: user name and password, clean session, keepalive 300 s. */
function encodeConnect(token: string, auth: string): Buffer {
  const texts = [token, token, auth].map((text) => {
    const bytes = Buffer.from(text);
    return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
  });
  const body = Buffer.concat([Buffer.from([0, 4, 77, 81, 84, 84, 4, 0xc2, 1, 44]), ...texts]);
  const length =
    body.length < 128 ? [body.length] : [(body.length & 0x7f) | 0x80, body.length >> 7];
  return Buffer.concat([Buffer.from([0x10, ...length]), body]);
}
