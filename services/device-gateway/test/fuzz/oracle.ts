import { type IConnectPacket, type Packet, parser } from 'mqtt-packet';
import { FIRST, MAX_PACKET_BYTES } from '../../src/frames.ts';
import type { Story } from './our-link.ts';
import { AUTH, TOKEN } from './streams.ts';

/** What mqtt-packet reads, told in the gateway's words, with the places where the gateway is stricter. */
export interface Reading extends Story {
  /** Why the gateway may refuse at this end although mqtt-packet goes on. */
  strictness?: string;
}

const TAKEN: readonly number[] = Object.values(FIRST);

interface Place {
  first: number;
  /** Remaining length as announced; undefined while it isn't there. */
  length: number | undefined;
  body: Buffer;
}

/** Reads a stream by mqtt-packet and tells what the gateway should make of it. */
export function readByLibrary(pieces: readonly Buffer[]): Reading {
  const bytes = Buffer.concat(pieces);
  const story: Reading = { said: [], end: 'open' };
  let at = 0;
  const reader = parser();
  reader.on('error', () => {
    if (story.end !== 'open' || story.strictness !== undefined) return;
    if (at === 0 && isForeign(bytes)) {
      // MQTT-3.1.2-2: another protocol level is told so, whatever the library makes of it.
      story.said.push('answer 20020001');
      story.end = 'answered';
    } else story.end = 'refused';
  });
  reader.on('packet', (packet) => {
    if (story.end !== 'open' || story.strictness !== undefined) return;
    const place = placeAt(bytes, at);
    at += place.first + (place.length ?? 0);
    const strictness = whyStricter(packet, place, story.said.length === 0);
    if (strictness === undefined) tell(packet, story);
    else story.strictness = strictness;
  });
  reader.parse(bytes);
  if (story.end === 'open' && story.strictness === undefined) waitFor(bytes, at, story);
  return story;
}

/** Whether the stream begins with a whole CONNECT of a protocol that isn't MQTT 3.1.1. */
function isForeign(bytes: Buffer): boolean {
  const { length, body } = placeAt(bytes, 0);
  const isWhole = length !== undefined && length <= MAX_PACKET_BYTES && body.length === length;
  return bytes[0] === 0x10 && isWhole && !isOurs(body);
}

/** Protocol name and level of MQTT 3.1.1 (3.1.2.1, 3.1.2.2). */
function isOurs(connectBody: Buffer): boolean {
  return connectBody.subarray(0, 7).equals(Buffer.from('\0\x04MQTT\x04'));
}

/** What of a packet that hasn't come whole is refused already. */
function waitFor(bytes: Buffer, at: number, story: Reading): void {
  if (at >= bytes.length) return;
  const { length } = placeAt(bytes, at);
  const first = bytes[at] ?? 0;
  const isTaken = at === 0 ? first === FIRST.connect : TAKEN.includes(first);
  if (!isTaken) story.strictness = 'not sent by devices';
  if (length !== undefined && length > MAX_PACKET_BYTES) story.strictness = 'too long';
}

function placeAt(bytes: Buffer, at: number): Place {
  let length = 0;
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[at + 1 + i];
    // Enough is known when what is there says too much already.
    if (byte === undefined) {
      return { first: 1 + i, length: length > MAX_PACKET_BYTES ? length : undefined, body: EMPTY };
    }
    length += (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      const first = 2 + i;
      return { first, length, body: bytes.subarray(at + first, at + first + length) };
    }
  }
  return { first: 5, length, body: EMPTY };
}

const EMPTY = Buffer.alloc(0);

/** Where the gateway refuses more than the library, on purpose. */
function whyStricter(
  packet: Packet,
  { length = 0, body }: Place,
  isFirst: boolean,
): string | undefined {
  if (length > MAX_PACKET_BYTES) return 'too long';
  if (!isFirst) return strictIn(packet, body);
  return packet.cmd === 'connect' ? strictConnect(packet, body) : 'not sent by devices';
}

function strictConnect(packet: IConnectPacket, body: Buffer): string | undefined {
  const fields = [packet.protocolId ?? '', packet.clientId, packet.username];
  const texts = fields.reduce((sum, text) => sum + 2 + Buffer.byteLength(text ?? ''), 0);
  if (!isOurs(body)) return undefined;
  if (packet.will !== undefined) return 'will';
  const password = packet.password === undefined ? 0 : 2 + packet.password.length;
  const username = packet.username === undefined ? -2 : 0;
  // Byte lengths of texts that aren't UTF-8 can't be told from what they were decoded to.
  const isExact = fields.every((text) => text?.includes('\ufffd') !== true);
  return isExact && texts + username + 4 + password > body.length ? 'runs over its end' : undefined;
}

function strictIn(packet: Packet, body: Buffer): string | undefined {
  switch (packet.cmd) {
    case 'connect':
      return 'second CONNECT';
    case 'puback':
      return body.length === 2 ? undefined : 'PUBACK not of two bytes';
    case 'pingreq':
    case 'disconnect':
      return body.length === 0 ? undefined : 'body where there is none';
    case 'subscribe':
      return strictFilters(
        packet.subscriptions.map(({ topic }) => topic),
        body,
        1,
      );
    case 'unsubscribe':
      return strictFilters(packet.unsubscriptions, body, 0);
    default:
      return 'not sent by devices';
  }
}

function strictFilters(
  filters: readonly string[],
  body: Buffer,
  optionBytes: number,
): string | undefined {
  if (body.length < 2) return 'runs over its end';
  if (filters.length === 0) return 'no filter';
  if (optionBytes === 1 && filters.length > 125) return 'too many filters';
  if (body.readUInt16BE(0) === 0) return 'packet id 0';
  let at = 2;
  for (let n = 0; n < filters.length; n += 1) {
    if (at + 2 > body.length) return 'runs over its end';
    at += 2 + body.readUInt16BE(at) + optionBytes;
  }
  return at > body.length ? 'runs over its end' : undefined;
}

/** What the gateway answers to a packet that it takes. */
function tell(packet: Packet, story: Story): void {
  const id = (packet.messageId ?? 0).toString(16).padStart(4, '0');
  switch (packet.cmd) {
    case 'connect':
      tellConnect(packet, story);
      break;
    case 'puback':
      story.said.push(`puback ${packet.messageId}`);
      break;
    case 'pingreq':
      story.said.push('answer d000');
      break;
    case 'subscribe': {
      const codes = packet.subscriptions.map(({ topic, qos }) =>
        topic === TOKEN ? Math.min(qos, 1) : 0x80,
      );
      const answer = Buffer.from([0x90, 2 + codes.length]).toString('hex');
      story.said.push(`answer ${answer}${id}${Buffer.from(codes).toString('hex')}`);
      break;
    }
    case 'unsubscribe':
      story.said.push(`answer b002${id}`);
      break;
    default:
      story.end = 'left';
  }
}

function tellConnect(packet: IConnectPacket, story: Story): void {
  const isOurs =
    packet.protocolVersion === 4 && packet.protocolId === 'MQTT' && !('bridgeMode' in packet);
  const isKnown =
    packet.clientId === TOKEN &&
    packet.username === TOKEN &&
    packet.password?.toString('latin1') === AUTH;
  const code = !isOurs ? 1 : isKnown ? 0 : 4;
  story.said.push(`answer 2002000${code}`);
  if (code !== 0) story.end = 'answered';
}
