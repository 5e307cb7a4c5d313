/** Thrown when the peer violates the protocol or a limit; the connection is closed. */
export class ProtocolError extends Error {}

/** Maximum length of a packet from a device; checked before the packet is buffered. */
export const MAX_PACKET_BYTES = 8_192;

/** Maximum length of a packet with its fixed header: the type and at most four bytes of length (MQTT 3.1.1, 2.2). */
export const MAX_FRAME_BYTES = MAX_PACKET_BYTES + 5;

/** First bytes of the packets that devices send: type and required flags (MQTT 3.1.1, 2.2.1 and 2.2.2). */
export const FIRST_BYTE = {
  connect: 0x10,
  puback: 0x40,
  subscribe: 0x82,
  unsubscribe: 0xa2,
  pingreq: 0xc0,
  disconnect: 0xe0,
} as const;

const IS_KNOWN_FIRST_BYTE = Array.from({ length: 256 }, (_, first) =>
  (Object.values(FIRST_BYTE) as number[]).includes(first),
);
const EMPTY = Buffer.alloc(0);

/**
 * Splits bytes into whole packets.
 *
 * @param onFrame gets each packet with its fixed header; returns false to stop after it
 * @returns the remaining bytes: the start of an incomplete packet, or all bytes after the stop
 * @throws ProtocolError as soon as a packet starts that devices don't send, or its length exceeds
 *   {@link MAX_PACKET_BYTES}
 */
export function splitFrames(bytes: Buffer, onFrame: (frame: Buffer) => boolean): Buffer {
  let offset = 0;
  while (offset < bytes.length) {
    const size = readFrameSize(bytes, offset);
    if (size === 0 || offset + size > bytes.length) break;
    // Nearly always the bytes are one whole packet, which needs no view of its own.
    const shouldContinue = onFrame(
      size === bytes.length ? bytes : bytes.subarray(offset, offset + size),
    );
    offset += size;
    if (!shouldContinue) break;
  }
  return offset === bytes.length ? EMPTY : bytes.subarray(offset);
}

/** Returns the size of the packet at `offset`; 0 while its length field is incomplete. */
function readFrameSize(bytes: Buffer, offset: number): number {
  if (!IS_KNOWN_FIRST_BYTE[bytes[offset] ?? 0])
    throw new ProtocolError('a packet type that devices do not send');
  let remaining = 0;
  // MQTT 3.1.1, 2.2.3: at most four bytes of seven bits, lowest first.
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[offset + 1 + i];
    if (byte === undefined) return 0;
    remaining += (byte & 0x7f) << (7 * i);
    if (remaining > MAX_PACKET_BYTES) throw new ProtocolError('packet too long');
    if (byte < 0x80) return 2 + i + remaining;
  }
  throw new ProtocolError('a length field of more than four bytes');
}

/** Returns a packet without its fixed header. */
export function readBody(frame: Buffer): Buffer {
  let offset = 1;
  while ((frame[offset] ?? 0) >= 0x80) offset += 1;
  return frame.subarray(offset + 1);
}

/** CONNACK return codes (MQTT 3.1.1, 3.2.2.3). */
export const CONNACK = {
  accepted: 0,
  wrongProtocol: 1,
  unavailable: 3,
  badCredentials: 4,
  notAuthorized: 5,
} as const;

/** Encodes a CONNACK without session present: the inbox replaces the MQTT session, whatever the clean session flag. */
export function encodeConnack(code: number): Buffer {
  return Buffer.from([0x20, 2, 0, code]);
}

export const PINGRESP = Buffer.from([0xd0, 0]);

/**
 * Rejects every filter (MQTT 3.1.1, 3.9.3: 0x80), because devices receive their pushes without a subscription. The
 * device's own token is granted, without effect: some clients (mosquitto_sub) disconnect when all filters fail.
 */
export function encodeSuback(subscribe: Buffer, token: string): Buffer {
  const filters = readFilters(subscribe, 1);
  // Above 125 the length of the SUBACK would need a second byte.
  if (filters.length > 125) throw new ProtocolError('too many filters');
  const codes = filters.map(({ name, option = 0 }) => {
    // MQTT-3.8.3-4: the QoS is 0, 1 or 2, and the other bits are 0.
    if (option > 2) throw new ProtocolError('malformed SUBSCRIBE');
    return name === token ? Math.min(option, 1) : 0x80;
  });
  return Buffer.from([0x90, 2 + codes.length, ...readPacketId(subscribe), ...codes]);
}

export function encodeUnsuback(unsubscribe: Buffer): Buffer {
  readFilters(unsubscribe, 0);
  return Buffer.from([0xb0, 2, ...readPacketId(unsubscribe)]);
}

/** Reads the filters of a SUBSCRIBE or UNSUBSCRIBE, each with its byte of options if there is one. */
function readFilters(frame: Buffer, optionBytes: 0 | 1): { name: string; option?: number }[] {
  const body = readBody(frame);
  const filters: { name: string; option?: number }[] = [];
  for (let offset = 2; offset < body.length; ) {
    if (offset + 2 > body.length) throw new ProtocolError('malformed filters');
    const end = offset + 2 + body.readUInt16BE(offset);
    if (end + optionBytes > body.length) throw new ProtocolError('malformed filters');
    const option = optionBytes === 1 ? { option: body[end] ?? 0 } : {};
    filters.push({ name: body.toString('utf8', offset + 2, end), ...option });
    offset = end + optionBytes;
  }
  // MQTT-3.8.3-3, MQTT-3.10.3-2: at least one.
  if (filters.length === 0) throw new ProtocolError('no filter');
  return filters;
}

/** Reads the packet id, which is never 0 (MQTT-2.3.1-1). */
function readPacketId(frame: Buffer): [number, number] {
  const [high = 0, low = 0] = readBody(frame);
  if (high === 0 && low === 0) throw new ProtocolError('no packet id');
  return [high, low];
}
