import type { Socket } from 'node:net';
import { ProtocolError } from './frames.ts';

/** First bytes of every PROXY protocol version 2 header (specification, 2.2). */
const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
/** Length of the fixed part of a version 2 header. */
const FIXED_BYTES = 16;
/** Start of a version 1 header (specification, 2.1). */
const SIGNATURE_V1 = Buffer.from('PROXY ');
/**
 * Maximum length of the rest of a header. Addresses take at most 36 bytes; extensions follow, of which proxies send
 * few.
 */
const MAX_REST_BYTES = 1_024;
const LOCAL = 0x20;
const PROXY = 0x21;
const TCP_OVER_IPV4 = 0x11;
const TCP_OVER_IPV6 = 0x21;

/** Returns whether the first bytes of a connection are a PROXY protocol header of any version. */
export function isProxyHeader(bytes: Buffer): boolean {
  return [SIGNATURE, SIGNATURE_V1].some((signature) =>
    bytes.subarray(0, signature.length).equals(signature),
  );
}

/**
 * Reads the PROXY protocol header (version 2) that a load balancer sends first, and leaves the bytes after the
 * header in the socket.
 *
 * @param socket paused and unread; the caller closes it when the header takes too long
 * @returns the client's address; undefined when the balancer connects for itself (health checks)
 * @throws ProtocolError when the socket sends anything else, or closes
 */
export async function readProxyHeader(socket: Socket): Promise<string | undefined> {
  const fixedPart = await readExactly(socket, FIXED_BYTES);
  if (!fixedPart.subarray(0, SIGNATURE.length).equals(SIGNATURE)) {
    throw new ProtocolError('no PROXY protocol header');
  }
  const length = fixedPart.readUInt16BE(14);
  if (length > MAX_REST_BYTES) throw new ProtocolError('PROXY protocol header too long');
  const rest = length === 0 ? Buffer.alloc(0) : await readExactly(socket, length);
  if (fixedPart[12] === LOCAL) return undefined;
  if (fixedPart[12] !== PROXY)
    throw new ProtocolError('unknown version or command of PROXY protocol');
  return parseSourceAddress(fixedPart[13], rest);
}

/** Reads the source address, which comes first (2.2); other address families count as unknown. */
function parseSourceAddress(family: number | undefined, rest: Buffer): string | undefined {
  if (family === TCP_OVER_IPV4 && rest.length >= 12) return rest.subarray(0, 4).join('.');
  if (family === TCP_OVER_IPV6 && rest.length >= 36) {
    const groups = Array.from({ length: 8 }, (_, n) => rest.readUInt16BE(n * 2).toString(16));
    return groups.join(':');
  }
  return undefined;
}

function readExactly(socket: Socket, bytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    function tryRead(): void {
      const read = socket.read(bytes) as Buffer | null;
      if (read === null) return;
      removeListeners();
      // At its end a stream returns fewer bytes.
      if (read.length < bytes) reject(new ProtocolError('PROXY protocol header cut off'));
      else resolve(read);
    }
    function fail(): void {
      removeListeners();
      reject(new ProtocolError('PROXY protocol header cut off'));
    }
    function removeListeners(): void {
      socket.off('readable', tryRead);
      socket.off('close', fail);
    }
    socket.on('readable', tryRead);
    socket.on('close', fail);
    tryRead();
  });
}
