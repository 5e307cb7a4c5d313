import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { encodeConnect, packetSize, pubackFor } from './mqtt-packets.ts';

/** After a connection that was not opened, as clients wait by default; after one that broke: not at all. */
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
  /** Over TLS, whatever name the server's certificate has. */
  isSecure?: boolean;
  /** Sent first, as a load balancer does. */
  proxyHeader?: Buffer;
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

  constructor(device: { token: string; auth: string }, at: DeviceAddress, on: DeviceEvents) {
    this.token = device.token;
    this.#connect = encodeConnect(device.token, device.auth);
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
    if (this.#at.proxyHeader !== undefined) socket.write(this.#at.proxyHeader);
    socket.write(this.#connect);
    socket.on('data', (bytes) => this.#read(bytes));
    socket.on('error', () => undefined);
    socket.on('close', () => this.#closed());
  }

  /** Cuts the connection without DISCONNECT; the device reconnects at once. */
  cut(): void {
    if (this.#isConnected) {
      // Counted now: a report right after the cut must not count connections that are about to end.
      this.#isConnected = false;
      this.#isCut = true;
      this.#on.disconnected();
    }
    if (this.#at.isSecure === true) this.#socket?.destroy();
    else this.#socket?.resetAndDestroy();
  }

  /** Reads nothing more from this connection, which stays open. */
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
    const { puback, payloadStart } = pubackFor(packet);
    this.#socket?.write(puback);
    this.#on.arrived(this.token, packet.toString('utf8', payloadStart));
  }
}
