import type { Transport } from './transport.ts';

const PUBLISH_QOS_1 = 0x32;
const DUP = 0x08;

/** A PUBLISH of QoS 1, encoded once for all recipients. */
export interface PublishPacket {
  bytes: Buffer;
  /** Offset of the two bytes of the packet id. */
  packetIdOffset: number;
}

/**
 * Encodes a push as PUBLISH (MQTT 3.1.1, 3.3). The topic is the push's id: devices need no topic, and by the id a
 * device detects a duplicate.
 */
export function encodePublish(push: string, payload: string): PublishPacket {
  const topicBytes = Buffer.byteLength(push);
  const remaining = 2 + topicBytes + 2 + Buffer.byteLength(payload);
  const length = encodeLength(remaining);
  const bytes = Buffer.allocUnsafeSlow(1 + length.length + remaining);
  bytes[0] = PUBLISH_QOS_1;
  let offset = 1;
  for (const byte of length) offset = bytes.writeUInt8(byte, offset);
  offset = bytes.writeUInt16BE(topicBytes, offset);
  offset += bytes.write(push, offset);
  const packetIdOffset = offset;
  bytes.write(payload, packetIdOffset + 2);
  return { bytes, packetIdOffset };
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
 * Writes a PUBLISH for one device. Nearly always the kernel accepts the bytes at once and the buffer is reused for
 * the next device; otherwise the socket keeps the buffer, and the packet gets a copy.
 */
export function writePublish(
  packet: PublishPacket,
  packetId: number,
  dup: boolean,
  transport: Pick<Transport, 'write' | 'writableLength'>,
): void {
  packet.bytes[0] = dup ? PUBLISH_QOS_1 | DUP : PUBLISH_QOS_1;
  packet.bytes.writeUInt16BE(packetId, packet.packetIdOffset);
  transport.write(packet.bytes);
  if (transport.writableLength > 0) packet.bytes = Buffer.from(packet.bytes);
}
