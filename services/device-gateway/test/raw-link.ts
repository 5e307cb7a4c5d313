import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { deviceAuth } from '@carillon/core/device-auth';
import { generate, type IConnectPacket } from 'mqtt-packet';
import { closed } from '../../../test/support/closed.ts';
import { AUTH_KEYS } from './gateway-under-test.ts';

/** A CONNECT of a device whose credentials are ours, with what a test wants to be different. */
export function connectPacket(token: string, different: Partial<IConnectPacket> = {}): Buffer {
  return generate({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: 4,
    clean: true,
    clientId: token,
    username: token,
    password: Buffer.from(deviceAuth(AUTH_KEYS, token)),
    keepalive: 300,
    ...different,
  });
}

/** A bare TCP connection to a gateway; that it breaks is a test's subject, not a crash. */
export function openSocket(port: number): Socket {
  return connect(port, '127.0.0.1').on('error', () => undefined);
}

/** Sends bytes and gives all that comes back until the gateway closes. */
export async function talk(port: number, ...pieces: Buffer[]): Promise<number[]> {
  const socket = openSocket(port);
  const answers: Buffer[] = [];
  socket.on('data', (bytes) => answers.push(bytes));
  for (const piece of pieces) socket.write(piece);
  await closed(socket);
  return [...Buffer.concat(answers)];
}

/** Opens a link, sends bytes and waits for just so many bytes of answer; the link stays open. */
export async function exchange(socket: Socket, bytes: Buffer, wanted: number): Promise<number[]> {
  const answers: number[] = [];
  socket.write(bytes);
  while (answers.length < wanted) answers.push(...((await once(socket, 'data'))[0] as Buffer));
  return answers;
}

/** Milliseconds until the gateway closes a link. */
export async function closedWithin(socket: Socket): Promise<number> {
  const startedAt = performance.now();
  // Its close shows behind what was not read.
  socket.resume();
  await closed(socket);
  return performance.now() - startedAt;
}
