/** MQTT 3.1.1, 3.1: user name and password, clean session, keepalive 300 s. */
export function encodeConnect(token: string, auth: string): Buffer {
  const texts = [token, token, auth].map((text) => {
    const bytes = Buffer.from(text);
    return Buffer.concat([Buffer.from([bytes.length >> 8, bytes.length & 0xff]), bytes]);
  });
  const body = Buffer.concat([Buffer.from([0, 4, 77, 81, 84, 84, 4, 0xc2, 1, 44]), ...texts]);
  const length =
    body.length < 128 ? [body.length] : [(body.length & 0x7f) | 0x80, body.length >> 7];
  return Buffer.concat([Buffer.from([0x10, ...length]), body]);
}

/** Builds the PUBACK of a QoS 1 PUBLISH and finds the start of its payload. */
export function pubackFor(publish: Buffer): { puback: Buffer; payloadStart: number } {
  let body = 1;
  while ((publish[body] ?? 0) >= 0x80) body += 1;
  const packetIdStart = body + 3 + publish.readUInt16BE(body + 1);
  const puback = Buffer.from([
    0x40,
    2,
    publish[packetIdStart] ?? 0,
    publish[packetIdStart + 1] ?? 0,
  ]);
  return { puback, payloadStart: packetIdStart + 2 };
}

/** Returns the size of the packet at `at`, including its header; 0 while it is incomplete. */
export function packetSize(bytes: Buffer, at: number): number {
  let length = 0;
  for (let i = 0; i < 4; i += 1) {
    const byte = bytes[at + 1 + i];
    if (byte === undefined) return 0;
    length += (byte & 0x7f) << (7 * i);
    if (byte < 0x80) return at + 2 + i + length <= bytes.length ? 2 + i + length : 0;
  }
  return 0;
}
