import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIP } from 'node:net';

const HEADER_BYTES = 12;
/** A response without an error, and one that says that the name does not exist (RFC 1035, 4.1.1). */
const FLAGS = { found: 0x81_80, absent: 0x81_83 };
const TYPE_A = 1;

/** Returns the IPv4 addresses of a name; undefined if it does not exist, `silent` for no response. */
type Resolve = (name: string) => readonly string[] | undefined | 'silent';

/** A DNS server on this machine. */
export interface DnsServer {
  /** `127.0.0.1:port` */
  address: string;
  /** Names that were asked for, each once for each kind of address. */
  asked: string[];
  stop(): Promise<void>;
}

/** Starts a DNS server. */
export async function startDnsServer(resolve: Resolve): Promise<DnsServer> {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, { port, address }) => {
    const { name, end } = readName(query);
    asked.push(name);
    const found = resolve(name);
    if (found === 'silent') return;
    const addresses = query.readUInt16BE(end) === TYPE_A ? (found ?? []) : [];
    const header = Buffer.alloc(HEADER_BYTES);
    query.copy(header, 0, 0, 2);
    header.writeUInt16BE(found === undefined ? FLAGS.absent : FLAGS.found, 2);
    header.writeUInt16BE(1, 4);
    header.writeUInt16BE(addresses.length, 6);
    const question = query.subarray(HEADER_BYTES, end + 4);
    socket.send(Buffer.concat([header, question, ...addresses.map(encodeAnswer)]), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    stop: () => new Promise((done) => socket.close(() => done())),
  };
}

/** Reads the name of the question, and the position of its end. */
function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

/** Encodes a record that is not to be cached: a pointer to the question, type, class, time to live, address. */
function encodeAnswer(address: string): Buffer {
  if (isIP(address) !== 4) throw new Error(`${address} is no IPv4 address`);
  const bytes = address.split('.').map(Number);
  return Buffer.from([0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4, ...bytes]);
}
