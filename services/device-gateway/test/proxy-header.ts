/** First bytes of a header of the PROXY protocol, version 2 (section 2.2). */
export const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');

/** Encodes a version 2 header with the client's IPv4 address. */
export function createHeader(address: string, extension = Buffer.alloc(0)): Buffer {
  const ports = Buffer.from([0x1f, 0x90, 0x07, 0x5b]);
  const addresses = Buffer.from([...address.split('.').map(Number), 10, 0, 0, 1]);
  const rest = Buffer.concat([addresses, ports, extension]);
  return Buffer.concat([
    SIGNATURE,
    Buffer.from([0x21, 0x11, rest.length >> 8, rest.length & 255]),
    rest,
  ]);
}
