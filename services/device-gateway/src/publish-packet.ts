import type { Wire } from './wire.ts';

const PUBLISH_QOS_1 = 0x32;
const DUP = 0x08;

/** A PUBLISH of QoS 1, encoded once for all its receivers. */
export interface PublishPacket {
  bytes: Buffer;
  /** Where the two bytes of the packet id are. */
  idAt: number;
}

/**
 * Encodes a push (MQTT 3.1.1, 3.3). The topic is the push's id: devices ignore it, and it is what tells
 * a receiver that two PUBLISH are the same push.
 */
export function encodePublish(push: string, payload: string): PublishPacket {
  const topicBytes = Buffer.byteLength(push);
  const remaining = 2 + topicBytes + 2 + Buffer.byteLength(payload);
  const length = encodeLength(remaining);
  const bytes = Buffer.allocUnsafeSlow(1 + length.length + remaining);
  bytes[0] = PUBLISH_QOS_1;
  let at = 1;
  for (const byte of length) at = bytes.writeUInt8(byte, at);
  at = bytes.writeUInt16BE(topicBytes, at);
  at += bytes.write(push, at);
  const idAt = at;
  bytes.write(payload, idAt + 2);
  return { bytes, idAt };
}

function encodeLength(remaining: number): number[] {
  const bytes: number[] = [];
  let rest = remaining;
  do {
    const byte = rest & 0x7f;
    rest >>= 7;
    bytes.push(rest > 0 ? byte | 0x80 : byte);
  } while (rest > 0);
  return bytes;
}

/**
 * Writes a PUBLISH for one device. Nearly always the kernel takes the bytes at once, so that they can be used for
 * the next device; else they are the socket's from now on, and the packet gets a copy.
 */
export function writePublish(
  packet: PublishPacket,
  packetId: number,
  dup: boolean,
  wire: Pick<Wire, 'write' | 'writableLength'>,
): void {
  packet.bytes[0] = dup ? PUBLISH_QOS_1 | DUP : PUBLISH_QOS_1;
  packet.bytes.writeUInt16BE(packetId, packet.idAt);
  wire.write(packet.bytes);
  if (wire.writableLength > 0) packet.bytes = Buffer.from(packet.bytes);
}
