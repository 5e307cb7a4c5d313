import { type IConnectPacket, type Packet, parser } from 'mqtt-packet';
import { FIRST_BYTE, MAX_PACKET_BYTES } from '../../src/frames.ts';
import { AUTH, TOKEN } from './random-streams.ts';

/** Result of a stream. */
export interface Trace {
  /** Packets handled and responses written, in order. */
  events: string[];
  /** `open`: more bytes are expected; `rejected`: closed with a CONNACK; `closed`: closed without a response; `failed`: by an unexpected error. */
  end: 'open' | 'disconnected' | 'rejected' | 'closed' | 'failed';
}

/** The trace that mqtt-packet implies for the gateway, and the rule where the gateway is stricter. */
export interface ExpectedTrace extends Trace {
  /** Why the gateway closes the connection here although mqtt-packet accepts the packet. */
  strictness?: string;
}

const ACCEPTED_FIRST_BYTES: readonly number[] = Object.values(FIRST_BYTE);

interface PacketPosition {
  headerBytes: number;
  /** Remaining length of the fixed header; undefined while it is incomplete. */
  length: number | undefined;
  body: Buffer;
}

/** Parses a stream with mqtt-packet and returns the trace that the gateway should have. */
export function readWithMqttPacket(chunks: readonly Buffer[]): ExpectedTrace {
  const bytes = Buffer.concat(chunks);
  const trace: ExpectedTrace = { events: [], end: 'open' };
  let offset = 0;
  const reader = parser();
  reader.on('error', () => {
    if (trace.end !== 'open' || trace.strictness !== undefined) return;
    if (offset === 0 && isOtherProtocol(bytes)) {
      // MQTT-3.1.2-2: another protocol level gets CONNACK 1, also where the library reports an error.
      trace.events.push('response 20020001');
      trace.end = 'rejected';
    } else trace.end = 'closed';
  });
  reader.on('packet', (packet) => {
    if (trace.end !== 'open' || trace.strictness !== undefined) return;
    const position = locatePacket(bytes, offset);
    offset += position.headerBytes + (position.length ?? 0);
    const strictness = findStricterRule(packet, position, trace.events.length === 0);
    if (strictness === undefined) applyPacket(packet, trace);
    else trace.strictness = strictness;
  });
  reader.parse(bytes);
  if (trace.end === 'open' && trace.strictness === undefined) checkIncomplete(bytes, offset, trace);
  return trace;
}

/** Checks whether the stream starts with a whole CONNECT of a protocol other than MQTT 3.1.1 and MQTT 3.1. */
function isOtherProtocol(bytes: Buffer): boolean {
  const { length, body } = locatePacket(bytes, 0);
  const isWhole = length !== undefined && length <= MAX_PACKET_BYTES && body.length === length;
  return bytes[0] === 0x10 && isWhole && !isSupported(body);
}

/** Checks whether name and level are those of MQTT 3.1.1 (3.1.2.1, 3.1.2.2) or MQTT 3.1. */
function isSupported(connectBody: Buffer): boolean {
  const startsWith = (text: string) =>
    connectBody.subarray(0, text.length).equals(Buffer.from(text));
  return startsWith('\0\x04MQTT\x04') || startsWith('\0\x06MQIsdp\x03');
}

/** Checks the start of an incomplete packet, which the gateway may already reject. */
function checkIncomplete(bytes: Buffer, offset: number, trace: ExpectedTrace): void {
  if (offset >= bytes.length) return;
  const { length } = locatePacket(bytes, offset);
  const first = bytes[offset] ?? 0;
  const isAccepted =
    offset === 0 ? first === FIRST_BYTE.connect : ACCEPTED_FIRST_BYTES.includes(first);
  if (!isAccepted) trace.strictness = 'not sent by devices';
  if (length !== undefined && length > MAX_PACKET_BYTES) trace.strictness = 'too long';
}

function locatePacket(bytes: Buffer, offset: number): PacketPosition {
  let length = 0;
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[offset + 1 + i];
    // An incomplete length field may already exceed the limit.
    const known = length > MAX_PACKET_BYTES ? length : undefined;
    if (byte === undefined) return { headerBytes: 1 + i, length: known, body: EMPTY };
    length += (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      const headerBytes = 2 + i;
      const start = offset + headerBytes;
      return { headerBytes, length, body: bytes.subarray(start, start + length) };
    }
  }
  return { headerBytes: 5, length, body: EMPTY };
}

const EMPTY = Buffer.alloc(0);

/** Returns the rule by which the gateway rejects a packet that the library accepts. */
function findStricterRule(
  packet: Packet,
  { length = 0, body }: PacketPosition,
  isFirst: boolean,
): string | undefined {
  if (length > MAX_PACKET_BYTES) return 'too long';
  if (!isFirst) return findStricterPacketRule(packet, body);
  return packet.cmd === 'connect' ? findStricterConnectRule(packet, body) : 'not sent by devices';
}

function findStricterConnectRule(packet: IConnectPacket, body: Buffer): string | undefined {
  const will = packet.will === undefined ? [] : [packet.will.topic];
  const fields = [packet.protocolId ?? '', packet.clientId, packet.username, ...will];
  const texts = fields.reduce((sum, text) => sum + 2 + Buffer.byteLength(text ?? ''), 0);
  if (!isSupported(body)) return undefined;
  const password = packet.password === undefined ? 0 : 2 + packet.password.length;
  const username = packet.username === undefined ? -2 : 0;
  const willPayload = packet.will === undefined ? 0 : 2 + packet.will.payload.length;
  // The byte length of a text that is not UTF-8 is lost when the text is decoded.
  const isExact = fields.every((text) => text?.includes('\ufffd') !== true);
  return isExact && texts + username + 4 + willPayload + password > body.length
    ? 'runs over its end'
    : undefined;
}

function findStricterPacketRule(packet: Packet, body: Buffer): string | undefined {
  switch (packet.cmd) {
    case 'connect':
      return 'second CONNECT';
    case 'puback':
      return body.length === 2 ? undefined : 'PUBACK not of two bytes';
    case 'pingreq':
    case 'disconnect':
      return body.length === 0 ? undefined : 'body where there is none';
    case 'subscribe':
      return findStricterFilterRule(packet.subscriptions.length, body, 1);
    case 'unsubscribe':
      return findStricterFilterRule(packet.unsubscriptions.length, body, 0);
    default:
      return 'not sent by devices';
  }
}

function findStricterFilterRule(
  filters: number,
  body: Buffer,
  optionBytes: number,
): string | undefined {
  if (body.length < 2) return 'runs over its end';
  if (filters === 0) return 'no filter';
  if (optionBytes === 1 && filters > 125) return 'too many filters';
  if (body.readUInt16BE(0) === 0) return 'packet id 0';
  let offset = 2;
  for (let n = 0; n < filters; n += 1) {
    if (offset + 2 > body.length) return 'runs over its end';
    offset += 2 + body.readUInt16BE(offset) + optionBytes;
  }
  return offset > body.length ? 'runs over its end' : undefined;
}

/** Adds the gateway's response to an accepted packet. */
function applyPacket(packet: Packet, trace: Trace): void {
  const id = (packet.messageId ?? 0).toString(16).padStart(4, '0');
  switch (packet.cmd) {
    case 'connect':
      applyConnect(packet, trace);
      break;
    case 'puback':
      trace.events.push(`puback ${packet.messageId}`);
      break;
    case 'pingreq':
      trace.events.push('response d000');
      break;
    case 'subscribe': {
      const codes = packet.subscriptions.map(({ topic, qos }) =>
        topic === TOKEN ? Math.min(qos, 1) : 0x80,
      );
      const response = Buffer.from([0x90, 2 + codes.length]).toString('hex');
      trace.events.push(`response ${response}${id}${Buffer.from(codes).toString('hex')}`);
      break;
    }
    case 'unsubscribe':
      trace.events.push(`response b002${id}`);
      break;
    default:
      trace.end = 'disconnected';
  }
}

function applyConnect(packet: IConnectPacket, trace: Trace): void {
  const { protocolId, protocolVersion } = packet;
  const isSupported =
    ['MQTT 4', 'MQIsdp 3'].includes(`${protocolId} ${protocolVersion}`) &&
    !('bridgeMode' in packet);
  const isKnown =
    packet.clientId === TOKEN &&
    packet.username === TOKEN &&
    packet.password?.toString('latin1') === AUTH;
  const code = !isSupported ? 1 : isKnown ? 0 : 4;
  trace.events.push(`response 2002000${code}`);
  if (code !== 0) trace.end = 'rejected';
}
