import type { Socket } from 'node:net';
import { ProtocolError } from './frames.ts';

/** What every header of PROXY protocol version 2 begins with (its specification, 2.2). */
const SIGNATURE = Buffer.from('0d0a0d0a000d0a515549540a', 'hex');
const FIXED_BYTES = 16;
/** Addresses take 36 bytes; the rest are extensions, of which proxies send few. */
const MAX_REST_BYTES = 1_024;
const LOCAL = 0x20;
const PROXY = 0x21;
const TCP_OVER_IPV4 = 0x11;
const TCP_OVER_IPV6 = 0x21;

/**
 * Reads the PROXY protocol header (version 2) that a load balancer puts before everything else, and leaves
 * what comes after it in the socket.
 *
 * @param socket paused, nothing of it read; whoever gave it closes it when it takes too long
 * @returns the address of the client; undefined when the balancer speaks for itself (health checks)
 * @throws ProtocolError when it is anything else, or the socket closes
 */
export async function readProxyHeader(socket: Socket): Promise<string | undefined> {
  const fixed = await readExactly(socket, FIXED_BYTES);
  if (!fixed.subarray(0, SIGNATURE.length).equals(SIGNATURE)) {
    throw new ProtocolError('no PROXY protocol header');
  }
  const length = fixed.readUInt16BE(14);
  if (length > MAX_REST_BYTES) throw new ProtocolError('PROXY protocol header too long');
  const rest = length === 0 ? Buffer.alloc(0) : await readExactly(socket, length);
  if (fixed[12] === LOCAL) return undefined;
  if (fixed[12] !== PROXY) throw new ProtocolError('unknown version or command of PROXY protocol');
  return addressIn(fixed[13], rest);
}

/** The source address comes first (2.2); families without one are to be taken as unknown. */
function addressIn(family: number | undefined, rest: Buffer): string | undefined {
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
      release();
      // At its end a stream gives what there is.
      if (read.length < bytes) reject(new ProtocolError('PROXY protocol header cut off'));
      else resolve(read);
    }
    function fail(): void {
      release();
      reject(new ProtocolError('PROXY protocol header cut off'));
    }
    function release(): void {
      socket.off('readable', tryRead);
      socket.off('close', fail);
    }
    socket.on('readable', tryRead);
    socket.on('close', fail);
    tryRead();
  });
}
