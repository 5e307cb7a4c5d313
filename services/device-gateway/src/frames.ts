/** The peer broke the protocol or a bound; the link is closed. */
export class ProtocolError extends Error {}

/** No packet that a device may send is longer; checked before anything is gathered. */
export const MAX_PACKET_BYTES = 8_192;

/** Packet types (MQTT 3.1.1, 2.2.1). */
export const TYPE = {
  connect: 1,
  puback: 4,
  subscribe: 8,
  unsubscribe: 10,
  pingreq: 12,
  disconnect: 14,
} as const;

/**
 * Cuts bytes into whole packets.
 *
 * @param onFrame gets each packet with its fixed header; false stops the cutting behind it
 * @returns what is left: the beginning of a packet, or all behind the stop
 * @throws ProtocolError as soon as a length says more than {@link MAX_PACKET_BYTES}
 */
export function takeFrames(bytes: Buffer, onFrame: (frame: Buffer) => boolean): Buffer {
  let at = 0;
  while (at < bytes.length) {
    const size = frameSize(bytes, at);
    if (size === 0 || at + size > bytes.length) break;
    const goOn = onFrame(bytes.subarray(at, at + size));
    at += size;
    if (!goOn) break;
  }
  return bytes.subarray(at);
}

/** Size of the packet that begins at `at`; 0 while its length isn't there yet. */
function frameSize(bytes: Buffer, at: number): number {
  let remaining = 0;
  // MQTT 3.1.1, 2.2.3: at most four bytes of seven bits, lowest first. Two say all that we take.
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[at + 1 + i];
    if (byte === undefined) return 0;
    remaining += (byte & 0x7f) << (7 * i);
    if (remaining > MAX_PACKET_BYTES) throw new ProtocolError('packet too long');
    if (byte < 0x80) return 2 + i + remaining;
  }
  throw new ProtocolError('length of more than four bytes');
}

/** Where a packet's variable header begins. */
export function bodyOf(frame: Buffer): Buffer {
  let at = 1;
  while ((frame[at] ?? 0) >= 0x80) at += 1;
  return frame.subarray(at + 1);
}

/** Return codes of CONNACK (MQTT 3.1.1, 3.2.2.3). */
export const CONNACK = {
  accepted: 0,
  wrongProtocol: 1,
  unavailable: 3,
  badCredentials: 4,
  notAuthorized: 5,
} as const;

/** No session is kept: what a device is owed is in its inbox, whatever it says about clean sessions. */
export function connack(code: number): Buffer {
  return Buffer.from([0x20, 2, 0, code]);
}

export const PINGRESP = Buffer.from([0xd0, 0]);

/** Refuses every filter: devices get what is theirs without asking (MQTT 3.1.1, 3.9.3: 0x80). */
export function suback(subscribe: Buffer): Buffer {
  const body = bodyOf(subscribe);
  let filters = 0;
  for (let at = 2; at < body.length; filters += 1) {
    if (at + 2 > body.length) throw new ProtocolError('malformed SUBSCRIBE');
    at += 2 + body.readUInt16BE(at) + 1;
    if (at > body.length) throw new ProtocolError('malformed SUBSCRIBE');
  }
  // MQTT-3.8.3-3: at least one filter. Above 125 the answer's length would need a second byte.
  if (filters === 0 || filters > 125) throw new ProtocolError('malformed SUBSCRIBE');
  const answer = Buffer.alloc(4 + filters, 0x80);
  answer[0] = 0x90;
  answer[1] = 2 + filters;
  body.copy(answer, 2, 0, 2);
  return answer;
}

export function unsuback(unsubscribe: Buffer): Buffer {
  const body = bodyOf(unsubscribe);
  if (body.length < 2) throw new ProtocolError('malformed UNSUBSCRIBE');
  return Buffer.from([0xb0, 2, body[0] ?? 0, body[1] ?? 0]);
}
