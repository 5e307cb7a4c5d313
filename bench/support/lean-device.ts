import { connect, type Socket } from 'node:net';
import { connectPacket, packetSize, receiptOf } from './mqtt-bytes.ts';

/** Who a device is. */
export interface Identity {
  token: string;
  auth: string;
}

/** What a device tells of. */
export interface DeviceEvents {
  connected(): void;
  /** Called right after the PUBACK was written. */
  arrived(payload: Buffer): void;
  closed(): void;
}

export interface DeviceAddress {
  port: number;
  /** Its own address; many devices would run out of ports with one. */
  localAddress?: string;
  /** Given, the kernel need not look for a free one: among thousands that takes milliseconds. */
  localPort?: number;
}

const CONNACK = 2;
const PUBLISH = 3;

/**
 * As little of an MQTT device as can be: tens of thousands are played beside the stack that is measured.
 *
 * @returns what closes it
 */
export function openDevice(
  { token, auth }: Identity,
  at: DeviceAddress,
  on: DeviceEvents,
): () => void {
  const socket = connect({ host: '127.0.0.1', noDelay: true, ...at });
  let rest: Buffer | undefined;
  socket.write(connectPacket(token, auth));
  socket.on('data', (chunk) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    let from = 0;
    for (let size = packetSize(bytes, from); size > 0; size = packetSize(bytes, from)) {
      take(socket, bytes.subarray(from, from + size), on);
      from += size;
    }
    rest = from < bytes.length ? Buffer.from(bytes.subarray(from)) : undefined;
  });
  socket.on('error', () => undefined);
  socket.on('close', on.closed);
  return () => socket.destroy();
}

function take(socket: Socket, packet: Buffer, on: DeviceEvents): void {
  const type = (packet[0] ?? 0) >> 4;
  if (type === CONNACK && packet[3] === 0) on.connected();
  if (type !== PUBLISH) return;
  const { puback, payloadAt } = receiptOf(packet);
  socket.write(puback);
  on.arrived(packet.subarray(payloadAt));
}
