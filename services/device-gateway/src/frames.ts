/** The peer broke the protocol or a bound; the link is closed. */
export class ProtocolError extends Error {}

/** No packet that a device may send is longer; checked before anything is gathered. */
export const MAX_PACKET_BYTES = 8_192;

/** A packet with its fixed header: the type, and at most four bytes of length (MQTT 3.1.1, 2.2). */
export const LONGEST_FRAME_BYTES = MAX_PACKET_BYTES + 5;

/** First bytes of the packets that devices send: type, and prescribed low bits (MQTT 3.1.1, 2.2.1 and 2.2.2). */
export const FIRST = {
  connect: 0x10,
  puback: 0x40,
  subscribe: 0x82,
  unsubscribe: 0xa2,
  pingreq: 0xc0,
  disconnect: 0xe0,
} as const;

const IS_KNOWN = Array.from({ length: 256 }, (_, first) =>
  (Object.values(FIRST) as number[]).includes(first),
);
const NOTHING = Buffer.alloc(0);

/**
 * Cuts bytes into whole packets.
 *
 * @param onFrame gets each packet with its fixed header; false stops the cutting behind it
 * @returns what is left: the beginning of a packet, or all behind the stop
 * @throws ProtocolError as soon as a packet begins that devices don't send, or a length says more than
 *   {@link MAX_PACKET_BYTES}
 */
export function takeFrames(bytes: Buffer, onFrame: (frame: Buffer) => boolean): Buffer {
  let at = 0;
  while (at < bytes.length) {
    const size = frameSize(bytes, at);
    if (size === 0 || at + size > bytes.length) break;
    // Nearly always it is one whole packet.
    const goOn = onFrame(size === bytes.length ? bytes : bytes.subarray(at, at + size));
    at += size;
    if (!goOn) break;
  }
  return at === bytes.length ? NOTHING : bytes.subarray(at);
}

/** Size of the packet that begins at `at`; 0 while its length isn't there yet. */
function frameSize(bytes: Buffer, at: number): number {
  if (!IS_KNOWN[bytes[at] ?? 0]) throw new ProtocolError('a packet that devices do not send');
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

/**
 * Refuses every filter (MQTT 3.1.1, 3.9.3: 0x80), for devices get what is theirs without asking; but grants the
 * device's own token, which changes nothing: some clients (mosquitto_sub) leave when all is refused.
 */
export function suback(subscribe: Buffer, token: string): Buffer {
  const filters = filtersIn(subscribe, 1);
  // Above 125 the answer's length would need a second byte.
  if (filters.length > 125) throw new ProtocolError('too many filters');
  const codes = filters.map(({ name, option = 0 }) => {
    // MQTT-3.8.3-4: the QoS is 0, 1 or 2, and nothing else is in the byte.
    if (option > 2) throw new ProtocolError('malformed SUBSCRIBE');
    return name === token ? Math.min(option, 1) : 0x80;
  });
  return Buffer.from([0x90, 2 + codes.length, ...packetIdOf(subscribe), ...codes]);
}

export function unsuback(unsubscribe: Buffer): Buffer {
  filtersIn(unsubscribe, 0);
  return Buffer.from([0xb0, 2, ...packetIdOf(unsubscribe)]);
}

/** Reads the filters of a SUBSCRIBE or UNSUBSCRIBE, each with the byte of options that may follow it. */
function filtersIn(frame: Buffer, optionBytes: 0 | 1): { name: string; option?: number }[] {
  const body = bodyOf(frame);
  const filters: { name: string; option?: number }[] = [];
  for (let at = 2; at < body.length; ) {
    if (at + 2 > body.length) throw new ProtocolError('malformed filters');
    const end = at + 2 + body.readUInt16BE(at);
    if (end + optionBytes > body.length) throw new ProtocolError('malformed filters');
    const option = optionBytes === 1 ? { option: body[end] ?? 0 } : {};
    filters.push({ name: body.toString('utf8', at + 2, end), ...option });
    at = end + optionBytes;
  }
  // MQTT-3.8.3-3, MQTT-3.10.3-2: at least one.
  if (filters.length === 0) throw new ProtocolError('no filter');
  return filters;
}

/** MQTT-2.3.1-1: never 0. */
function packetIdOf(frame: Buffer): [number, number] {
  const [high = 0, low = 0] = bodyOf(frame);
  if (high === 0 && low === 0) throw new ProtocolError('no packet id');
  return [high, low];
}
