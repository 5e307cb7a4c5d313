import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createDeviceAuth } from '@carillon/core/device-auth';
import { generate, type IConnectPacket } from 'mqtt-packet';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { AUTH_KEYS } from './gateway-under-test.ts';

/** Encodes a CONNECT with valid credentials, and a test's changes. */
export function connectPacket(token: string, overrides: Partial<IConnectPacket> = {}): Buffer {
  return generate({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clean: true,
    clientId: token,
    username: token,
    password: Buffer.from(createDeviceAuth(AUTH_KEYS, token)),
    keepalive: 300,
    ...overrides,
  });
}

/** Encodes the CONNACK with a return code (MQTT 3.1.1, 3.2), without a session. */
export const connack = (code: number): number[] => [0x20, 2, 0, code];
export const ACCEPTED = connack(0);
export const UNAVAILABLE = connack(3);
export const BAD_CREDENTIALS = connack(4);
/** Credentials of no device. */
export const WRONG_AUTH = { password: Buffer.from('f'.repeat(64)) };

/** Opens a TCP connection to a gateway; ignores its errors. */
export function openSocket(port: number): Socket {
  return connect(port, '127.0.0.1').on('error', () => undefined);
}

/** Sends bytes and returns all received bytes until the gateway closes the connection. */
export async function sendUntilClosed(port: number, ...chunks: Buffer[]): Promise<number[]> {
  const received: number[] = [];
  const socket = openSocket(port).on('data', (bytes) => received.push(...bytes));
  for (const chunk of chunks) socket.write(chunk);
  await untilClosed(socket);
  return received;
}

/** Sends bytes and waits for `byteCount` bytes of response; the connection stays open. */
export async function sendAndRead(
  socket: Socket,
  bytes: Buffer,
  byteCount: number,
): Promise<number[]> {
  const received: number[] = [];
  socket.write(bytes);
  while (received.length < byteCount) received.push(...((await once(socket, 'data'))[0] as Buffer));
  return received;
}

/** Reads without keeping anything until the gateway closes the connection: the close is reported after all bytes are read. */
export const readUntilClosed = (socket: Socket): Promise<void> => untilClosed(socket.resume());
