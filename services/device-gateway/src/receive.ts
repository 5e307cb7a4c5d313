import type { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import { bodyOf, FIRST, PINGRESP, ProtocolError, suback, unsuback } from './frames.ts';

/** Bytes waiting in a socket above which its device is given up. */
const STUCK_AT_BYTES = 256 * 1_024;
/** Packets a second that prove nothing (pings, subscriptions, unknown PUBACKs); a device needs hardly one. */
const IDLE_PACKETS_PER_SECOND = 50;

export interface ReceiveDeps {
  connections: Pick<Connections, 'acknowledge' | 'close'>;
  /** The device pings: time to see whether a row was missed. */
  look(connection: Connection): Promise<void>;
}

/**
 * Takes one packet of a connected device.
 *
 * @throws ProtocolError when it is malformed, or a device has no reason to send it
 */
export function receive(deps: ReceiveDeps, connection: Connection, frame: Buffer): void {
  connection.heardAt = performance.now();
  switch (frame[0]) {
    case FIRST.puback:
      onPuback(deps, connection, frame);
      break;
    case FIRST.pingreq:
      onPingreq(deps, connection, frame);
      break;
    case FIRST.subscribe:
      answerIdle(deps, connection, suback(frame, connection.token));
      break;
    case FIRST.unsubscribe:
      answerIdle(deps, connection, unsuback(frame));
      break;
    case FIRST.disconnect:
      expectEmpty(frame);
      deps.connections.close(connection, 'disconnected');
      break;
    default:
      // MQTT-3.1.0-2
      throw new ProtocolError('a second CONNECT');
  }
}

function onPuback(deps: ReceiveDeps, connection: Connection, frame: Buffer): void {
  if (!deps.connections.acknowledge(connection, packetIdOf(frame))) countIdle(connection);
}

function packetIdOf(puback: Buffer): number {
  // Nobody needs more than one byte to say 2, though it is allowed.
  const body = puback[1] === 2 ? puback : bodyOf(puback);
  const at = body === puback ? 2 : 0;
  if (body.length !== at + 2) throw new ProtocolError('malformed PUBACK');
  return body.readUInt16BE(at);
}

function onPingreq(deps: ReceiveDeps, connection: Connection, frame: Buffer): void {
  expectEmpty(frame);
  answerIdle(deps, connection, PINGRESP);
  const now = performance.now();
  // silenceMs is one and a half keepalives.
  if (now - connection.lookedAt < connection.silenceMs * 0.6) return;
  connection.lookedAt = now;
  void deps.look(connection).catch(() => undefined);
}

function expectEmpty(frame: Buffer): void {
  if (frame[1] !== 0) throw new ProtocolError('a body where there is none');
}

function answerIdle(deps: ReceiveDeps, connection: Connection, answer: Buffer): void {
  countIdle(connection);
  connection.wire.write(answer);
  if (connection.wire.writableLength > STUCK_AT_BYTES) deps.connections.close(connection, 'stuck');
}

function countIdle(connection: Connection): void {
  connection.idlePackets += 1;
  if (connection.idlePackets > IDLE_PACKETS_PER_SECOND) throw new ProtocolError('a flood');
}
