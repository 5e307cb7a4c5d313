import { connect, type Socket } from 'node:net';
import { encodeConnect, packetSize, pubackFor } from '../../test/support/gateway/mqtt-packets.ts';

/** Identity of a device. */
export interface DeviceCredentials {
  token: string;
  auth: string;
}

/** Callbacks of a device. */
export interface DeviceEvents {
  connected(): void;
  /** Called directly after the PUBACK was written. */
  arrived(payload: Buffer): void;
  closed(): void;
}

export interface DeviceAddress {
  port: number;
  /** Local address: with a single one, many devices would exhaust the ports. */
  localAddress?: string;
  /** Local port. With it the kernel does not search for a free one, which takes milliseconds among thousands. */
  localPort?: number;
}

const CONNACK = 2;
const PUBLISH = 3;

/**
 * Connects a minimal MQTT device: the benchmark runs tens of thousands on the same machine as the stack.
 *
 * @returns a function that closes the connection
 */
export function openDevice(
  { token, auth }: DeviceCredentials,
  address: DeviceAddress,
  events: DeviceEvents,
): () => void {
  const socket = connect({ host: '127.0.0.1', noDelay: true, ...address });
  let unparsed: Buffer | undefined;
  socket.write(encodeConnect(token, auth));
  socket.on('data', (chunk) => {
    const bytes = unparsed === undefined ? chunk : Buffer.concat([unparsed, chunk]);
    let from = 0;
    for (let size = packetSize(bytes, from); size > 0; size = packetSize(bytes, from)) {
      handlePacket(socket, bytes.subarray(from, from + size), events);
      from += size;
    }
    unparsed = from < bytes.length ? Buffer.from(bytes.subarray(from)) : undefined;
  });
  socket.on('error', () => undefined);
  socket.on('close', events.closed);
  return () => socket.destroy();
}

function handlePacket(socket: Socket, packet: Buffer, events: DeviceEvents): void {
  const type = (packet[0] ?? 0) >> 4;
  if (type === CONNACK && packet[3] === 0) events.connected();
  if (type !== PUBLISH) return;
  const { puback, payloadStart: payloadAt } = pubackFor(packet);
  socket.write(puback);
  events.arrived(packet.subarray(payloadAt));
}
