import type { AppShares } from './app-shares.ts';
import { type AuthContext, authenticate } from './authenticate.ts';
import { Connection } from './connection.ts';
import type { Connections } from './connections.ts';
import type { ProxyDetector } from './detect-proxy.ts';
import type { IosAppRecorder, LastSeenRecorder } from './device-activity.ts';
import {
  CONNACK,
  encodeConnack,
  encodeSuback,
  encodeUnsuback,
  FIRST_BYTE,
  MAX_FRAME_BYTES,
  PINGRESP,
  ProtocolError,
  readBody,
  splitFrames,
} from './frames.ts';
import type { InboxReplay } from './inbox-replay.ts';
import type { WorkerReplies } from './live-delivery.ts';
import type { GatewayMetrics } from './metrics.ts';
import type { PendingConnection, PendingConnections } from './pending-connections.ts';
import type { Receipts } from './receipts.ts';
import type { Transport } from './transport.ts';

/** Maximum bytes buffered in a socket; above it the connection is closed. */
const MAX_WRITE_BUFFER_BYTES = 256 * 1_024;
/**
 * Maximum packets a second other than expected PUBACKs (pings, subscriptions, unknown PUBACKs); devices need about one.
 */
const MAX_CONTROL_PACKETS_PER_SECOND = 50;

/** The parts of the gateway that a packet may use. */
interface PacketContext {
  connections: Connections;
  replies: Pick<WorkerReplies, 'settle'>;
  receipts: Pick<Receipts, 'record'>;
  inboxReplay: Pick<InboxReplay, 'checkInbox'>;
  metrics: Pick<GatewayMetrics, 'countAck'>;
  lastSeen: Pick<LastSeenRecorder, 'record'>;
}

/** The parts of the gateway that a session uses. */
export interface SessionContext extends AuthContext, PacketContext {
  pendingConnections: PendingConnections;
  shares: AppShares;
  iosApps: IosAppRecorder;
  inboxReplay: Pick<InboxReplay, 'checkInbox' | 'replay'>;
  metrics: GatewayMetrics;
  proxyDetector: ProxyDetector;
}

/** Runs the MQTT session of a pending connection until it closes. */
export function startMqttSession(context: SessionContext, pending: PendingConnection): void {
  const { transport } = pending;
  const session = new MqttSession(context, pending);
  transport.on('data', (bytes) => session.onData(bytes));
  transport.on('close', () => session.onClose());
  transport.resume();
}

class MqttSession {
  readonly #context: SessionContext;
  readonly #transport: Transport;
  /** Released once the device is authenticated: thousands stay connected. */
  #pending: PendingConnection | undefined;
  #stage: 'connecting' | 'authenticating' | 'connected' | 'rejected' = 'connecting';
  #connection: Connection | undefined;
  /** The start of an incomplete packet; during authentication, all bytes after the CONNECT. */
  #buffered: Buffer | undefined;

  constructor(context: SessionContext, pending: PendingConnection) {
    this.#context = context;
    this.#transport = pending.transport;
    this.#pending = pending;
  }

  onData(chunk: Buffer): void {
    if (this.#stage === 'rejected') return;
    const bytes = this.#buffered === undefined ? chunk : Buffer.concat([this.#buffered, chunk]);
    this.#buffered = undefined;
    try {
      // Nearly all data is one PUBACK at a time, which needs no splitting.
      if (this.#connection !== undefined && isSinglePuback(bytes)) {
        handlePacket(this.#context, this.#connection, bytes);
        return;
      }
      this.#buffer(this.#stage === 'authenticating' ? bytes : this.#parse(bytes));
    } catch (error) {
      this.#fail(error);
    }
  }

  onClose(): void {
    this.#removePending();
    if (this.#connection !== undefined) this.#context.connections.close(this.#connection, 'lost');
  }

  #removePending(): void {
    if (this.#pending !== undefined) this.#context.pendingConnections.remove(this.#pending);
    this.#pending = undefined;
  }

  #parse(bytes: Buffer): Buffer {
    // A client of another protocol (a browser, a scanner) is closed at once.
    if (this.#stage === 'connecting' && bytes[0] !== FIRST_BYTE.connect) {
      this.#context.proxyDetector.onFirstBytes(bytes, this.#pending?.address ?? '');
      throw new ProtocolError('the first packet is not a CONNECT');
    }
    return splitFrames(bytes, (frame) => this.#onFrame(frame));
  }

  /** Keeps the remaining bytes. No client needs to send more than one packet ahead of the CONNACK. */
  #buffer(remaining: Buffer): void {
    if (remaining.length > MAX_FRAME_BYTES) throw new ProtocolError('too many bytes at once');
    if (remaining.length === 0) return;
    // A copy: a view of a few bytes would keep the whole read buffer, or a pool, in memory.
    this.#buffered = Buffer.allocUnsafeSlow(remaining.length);
    remaining.copy(this.#buffered);
  }

  #onFrame(frame: Buffer): boolean {
    if (this.#connection !== undefined) {
      handlePacket(this.#context, this.#connection, frame);
      return !this.#transport.destroyed;
    }
    this.#stage = 'authenticating';
    this.#handleConnect(Buffer.from(frame)).catch((error: unknown) => this.#fail(error));
    // Later packets are handled once the device is authenticated.
    return false;
  }

  async #handleConnect(frame: Buffer): Promise<void> {
    const { pendingConnections, limits, connections, shares } = this.#context;
    const pending = this.#pending;
    if (pending === undefined) return;
    this.#context.proxyDetector.onFirstBytes(frame, pending.address);
    pendingConnections.markAuthenticating(pending);
    const result = await authenticate(this.#context, frame, pending.address);
    if (this.#transport.destroyed) return;
    if (!result.isAuthenticated) {
      const delayMs = result.isAuthFailure ? limits.recordAuthFailure(pending.address) : 0;
      return this.#reject(pending, result.code, delayMs);
    }
    const { request, device } = result;
    this.#context.iosApps.record(device);
    const app = shares.loadOf(device?.app);
    const isTakeover = connections.find(request.token) !== undefined;
    if (
      !limits.allowConnect(request.token, isTakeover) ||
      !(isTakeover || connections.canOpen(app))
    ) {
      return this.#reject(pending, CONNACK.unavailable);
    }
    const checked = { isVerified: device !== undefined, expiresAt: device?.expiresAt };
    this.#accept(new Connection({ ...request, transport: this.#transport, app, ...checked }));
  }

  #accept(connection: Connection): void {
    const { connections, inboxReplay, metrics } = this.#context;
    this.#removePending();
    this.#connection = connection;
    this.#stage = 'connected';
    this.#transport.write(encodeConnack(CONNACK.accepted));
    metrics.countConnect('accepted');
    // Registers, then reads the inbox: a row written before the registration is read, a later push is dispatched.
    void connections.add(connection).then(() => inboxReplay.replay(connection));
    this.onData(Buffer.alloc(0));
  }

  /** Sends a CONNACK; the connection stays pending and is closed by force if the client doesn't close it. */
  #reject(pending: PendingConnection, code: number, delayMs = 0): void {
    const { pendingConnections, metrics } = this.#context;
    this.#stage = 'rejected';
    this.#buffered = undefined;
    metrics.countConnect(`refused-${code}`);
    pendingConnections.reject(pending, delayMs, () => this.#transport.end(encodeConnack(code)));
  }

  #fail(error: unknown): void {
    const reason = error instanceof ProtocolError ? 'protocol-error' : 'failed';
    if (this.#connection === undefined) this.#context.metrics.countConnect(reason);
    else this.#context.connections.close(this.#connection, reason);
    this.#transport.destroy();
  }
}

function isSinglePuback(bytes: Buffer): boolean {
  return bytes.length === 4 && bytes[0] === FIRST_BYTE.puback && bytes[1] === 2;
}

/**
 * Handles one packet of a connected device.
 *
 * @throws ProtocolError when the packet is malformed, not allowed, or above the packet rate
 */
function handlePacket(context: PacketContext, connection: Connection, frame: Buffer): void {
  if (connection.recordPacket()) context.lastSeen.record(connection.token);
  switch (frame[0]) {
    case FIRST_BYTE.puback:
      handlePuback(context, connection, frame);
      break;
    case FIRST_BYTE.pingreq:
      handlePingreq(context, connection, frame);
      break;
    case FIRST_BYTE.subscribe:
      respond(context, connection, encodeSuback(frame, connection.token));
      break;
    case FIRST_BYTE.unsubscribe:
      respond(context, connection, encodeUnsuback(frame));
      break;
    case FIRST_BYTE.disconnect:
      assertEmptyBody(frame);
      context.connections.close(connection, 'disconnected');
      break;
    default:
      // MQTT-3.1.0-2
      throw new ProtocolError('a second CONNECT');
  }
}

/** Ends a delivery: the receipt is reported to the worker that waits for it, or else recorded in MongoDB. */
function handlePuback(
  { replies, receipts, metrics }: PacketContext,
  connection: Connection,
  frame: Buffer,
): void {
  const publish = connection.acknowledge(readPacketId(frame));
  if (publish === undefined) {
    countControlPacket(connection);
    return;
  }
  replies.settle(publish, 'acknowledged');
  if (publish.mustRecordReceipt) receipts.record(connection, publish);
  metrics.countAck(publish.mustRecordReceipt ? 'recorded' : 'in-time');
  connection.notifyAcknowledged();
}

function readPacketId(puback: Buffer): number {
  // The length 2 in more than one byte is allowed, and rare.
  const body = puback[1] === 2 ? puback : readBody(puback);
  const offset = body === puback ? 2 : 0;
  if (body.length !== offset + 2) throw new ProtocolError('malformed PUBACK');
  return body.readUInt16BE(offset);
}

/** Responds to a ping and checks the inbox, because the notice of a new row may be lost. */
function handlePingreq(context: PacketContext, connection: Connection, frame: Buffer): void {
  assertEmptyBody(frame);
  respond(context, connection, PINGRESP);
  // A failed check is repeated with a later ping.
  if (connection.tryStartPingCheck())
    void context.inboxReplay.checkInbox(connection).catch(() => undefined);
}

function assertEmptyBody(frame: Buffer): void {
  if (frame[1] !== 0) throw new ProtocolError('a body in a packet without one');
}

function respond({ connections }: PacketContext, connection: Connection, response: Buffer): void {
  countControlPacket(connection);
  connection.transport.write(response);
  if (connection.transport.writableLength > MAX_WRITE_BUFFER_BYTES)
    connections.close(connection, 'stuck');
}

function countControlPacket(connection: Connection): void {
  if (connection.countControlPacket() > MAX_CONTROL_PACKETS_PER_SECOND)
    throw new ProtocolError('too many packets a second');
}
