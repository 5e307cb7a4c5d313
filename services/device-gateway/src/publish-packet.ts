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

/** The bytes for one device. A copy: the socket may still hold the bytes of the one before. */
export function addressPublish(packet: PublishPacket, packetId: number, dup: boolean): Buffer {
  const bytes = Buffer.from(packet.bytes);
  bytes.writeUInt16BE(packetId, packet.idAt);
  if (dup) bytes[0] = PUBLISH_QOS_1 | DUP;
  return bytes;
}
