import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BSON, type Document } from 'mongodb';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';

/** Numbers of the wire protocol: https://www.mongodb.com/docs/manual/reference/mongodb-wire-protocol/ */
const OP_REPLY = 1;
const OP_MSG = 2_013;
const HEADER_BYTES = 16;

let server: Server;
const sockets = new Set<Socket>();
/** Names of the commands that were sent besides `hello`. */
const commands: string[] = [];
beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket);
    serveMongos(socket);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  const closed = once(server, 'close');
  server.close();
  await closed;
});

/** Responds as a mongos does, which isn't available everywhere: `hello` in full, all other commands with `ok`. */
function serveMongos(socket: Socket): void {
  let received = Buffer.alloc(0);
  socket.on('error', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    received = Buffer.concat([received, bytes]);
    while (received.length >= 4 && received.length >= received.readInt32LE(0)) {
      const size = received.readInt32LE(0);
      socket.write(respond(received.subarray(0, size)));
      received = received.subarray(size);
    }
  });
}

function respond(message: Buffer): Buffer {
  const isMsg = message.readInt32LE(12) === OP_MSG;
  // Flags and the kind of the section; or flags, a name that ends with 0, and two numbers.
  const at = isMsg ? HEADER_BYTES + 5 : message.indexOf(0, HEADER_BYTES + 4) + 9;
  const [name = ''] = Object.keys(BSON.deserialize(message.subarray(at)));
  const isHello = /^(hello|ismaster)$/i.test(name);
  if (!isHello) commands.push(name);
  const body = Buffer.from(BSON.serialize(isHello ? describeMongos() : { ok: 1 }));
  // One document, of a cursor that is none.
  const reply = Buffer.alloc(20);
  reply.writeInt32LE(1, 16);
  const content = Buffer.concat([isMsg ? Buffer.alloc(5) : reply, body]);
  const header = Buffer.alloc(HEADER_BYTES);
  header.writeInt32LE(HEADER_BYTES + content.length, 0);
  header.writeInt32LE(message.readInt32LE(4), 8);
  header.writeInt32LE(isMsg ? OP_MSG : OP_REPLY, 12);
  return Buffer.concat([header, content]);
}

const describeMongos = (): Document => ({
  ...{ ok: 1, isWritablePrimary: true, ismaster: true, msg: 'isdbgrid', localTime: new Date() },
  ...{ minWireVersion: 0, maxWireVersion: 17, maxBsonObjectSize: 16_777_216 },
  ...{ maxMessageSizeBytes: 48_000_000, maxWriteBatchSize: 100_000 },
});

test.each(['migrate', 'migrate --check'])('%s names it, and changes nothing', async (command) => {
  const { port } = server.address() as AddressInfo;
  const MONGODB_URI = `mongodb://127.0.0.1:${port}/carillon`;
  const { code, err } = await runCarillon(command.split(' '), { env: { MONGODB_URI } });
  expect({ code, err }).toEqual({
    code: 1,
    err: `MongoDB at 127.0.0.1:${port} is a mongos; Carillon supports one replica set (docs/scaling.md).\n`,
  });
  expect(commands.filter((name) => name !== 'endSessions' && name !== 'ping')).toEqual([]);
});
