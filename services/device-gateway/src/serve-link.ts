import type { Duplex } from 'node:stream';
import type { AddressLimits } from './address-limits.ts';
import type { Admission } from './admit.ts';
import { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import {
  bodyOf,
  CONNACK,
  connack,
  PINGRESP,
  ProtocolError,
  suback,
  TYPE,
  takeFrames,
  unsuback,
} from './frames.ts';

/** Bytes waiting in a socket above which its device is given up. */
const STUCK_AT_BYTES = 256 * 1_024;
/** Packets a second that prove nothing (pings, subscriptions, unknown PUBACKs); a device needs hardly one. */
const IDLE_PACKETS_PER_SECOND = 50;

export interface LinkDeps {
  connections: Connections;
  limits: AddressLimits;
  admit(frame: Buffer): Promise<Admission>;
  /** The device pings: time to see whether a row was missed. */
  look(connection: Connection): Promise<void>;
  connected(result: string): void;
}

/** A link whose CONNECT hasn't come. */
export interface Stranger {
  stream: Duplex;
  openedAt: number;
}

/** Serves one link over whatever transport, from its first byte to its end. */
export function serveLink(
  deps: LinkDeps,
  strangers: Set<Stranger>,
  stream: Duplex,
  address: string,
): void {
  const stranger: Stranger = { stream, openedAt: performance.now() };
  let connection: Connection | undefined;
  let rest: Buffer | undefined;
  strangers.add(stranger);

  function forget(): void {
    if (strangers.delete(stranger)) deps.limits.known(address);
  }

  function read(chunk: Buffer): void {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk]);
    try {
      // Whoever speaks another protocol (a browser, a scanner) isn't waited for.
      if (connection === undefined && bytes[0] !== TYPE.connect << 4) {
        throw new ProtocolError('the first packet is no CONNECT');
      }
      const left = takeFrames(bytes, onFrame);
      // A copy: a few bytes would keep the whole read buffer alive.
      rest = left.length > 0 ? Buffer.from(left) : undefined;
    } catch (error) {
      end(error);
    }
  }

  function onFrame(frame: Buffer): boolean {
    if (connection !== undefined) {
      receive(deps, connection, frame);
      return !stream.destroyed;
    }
    // Nothing more is read until it is clear who this is.
    stream.pause();
    greet(Buffer.from(frame)).catch(end);
    return false;
  }

  async function greet(frame: Buffer): Promise<void> {
    const admission = await deps.admit(frame);
    if (stream.destroyed) return;
    forget();
    if (!admission.isAdmitted) {
      if (admission.code === CONNACK.badCredentials) deps.limits.wrong(address);
      refuse(admission.code);
      return;
    }
    const { token, keepaliveSeconds } = admission.greeting;
    if (deps.connections.find(token) !== undefined && !deps.limits.takeOver(token)) {
      refuse(CONNACK.unavailable);
      return;
    }
    connection = new Connection({
      token,
      stream,
      keepaliveSeconds,
      isVerified: admission.isVerified,
    });
    stream.write(connack(CONNACK.accepted));
    deps.connected('accepted');
    void deps.connections.open(connection);
    const waiting = rest ?? Buffer.alloc(0);
    rest = undefined;
    read(waiting);
    stream.resume();
  }

  function refuse(code: number): void {
    deps.connected(`refused-${code}`);
    stream.end(connack(code));
  }

  function end(error: unknown): void {
    const reason = error instanceof ProtocolError ? 'protocol-error' : 'failed';
    if (connection === undefined) deps.connected(reason);
    else deps.connections.close(connection, reason);
    stream.destroy();
  }

  stream.on('data', read);
  // The reason of a broken link is of no use; its close is what counts.
  stream.on('error', () => undefined);
  stream.on('close', () => {
    forget();
    if (connection !== undefined) deps.connections.close(connection, 'lost');
  });
}

/** What a connected device says. */
function receive(deps: LinkDeps, connection: Connection, frame: Buffer): void {
  connection.heardAt = performance.now();
  // The fixed header's low bits are prescribed (MQTT-2.2.2-2).
  switch (frame[0]) {
    case TYPE.puback << 4:
      onPuback(deps, connection, frame);
      break;
    case TYPE.pingreq << 4:
      onPingreq(deps, connection);
      break;
    case (TYPE.subscribe << 4) | 2:
      answerIdle(deps, connection, suback(frame));
      break;
    case (TYPE.unsubscribe << 4) | 2:
      answerIdle(deps, connection, unsuback(frame));
      break;
    case TYPE.disconnect << 4:
      deps.connections.close(connection, 'disconnected');
      break;
    default:
      throw new ProtocolError('a packet that devices do not send');
  }
}

function onPuback(deps: LinkDeps, connection: Connection, frame: Buffer): void {
  const body = bodyOf(frame);
  if (body.length !== 2) throw new ProtocolError('malformed PUBACK');
  if (!deps.connections.acknowledge(connection, body.readUInt16BE(0))) countIdle(connection);
}

function onPingreq(deps: LinkDeps, connection: Connection): void {
  answerIdle(deps, connection, PINGRESP);
  const now = performance.now();
  // silenceMs is one and a half keepalives.
  if (now - connection.lookedAt < connection.silenceMs * 0.6) return;
  connection.lookedAt = now;
  void deps.look(connection).catch(() => undefined);
}

function answerIdle(deps: LinkDeps, connection: Connection, answer: Buffer): void {
  countIdle(connection);
  connection.stream.write(answer);
  if (connection.stream.writableLength > STUCK_AT_BYTES)
    deps.connections.close(connection, 'stuck');
}

function countIdle(connection: Connection): void {
  connection.idlePackets += 1;
  if (connection.idlePackets > IDLE_PACKETS_PER_SECOND) throw new ProtocolError('a flood');
}
