import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { addressPublish, encodePublish } from '../../services/device-gateway/src/publish-packet.ts';
import { createCountdown, obeyBench } from './server-process.ts';

/** The floor: sockets, one frame for all, bytes counted and nothing looked at. */
const sockets = new Set<Socket>();
const waiting = createCountdown();
const CONNACK = Buffer.from([0x20, 2, 0, 0]);
const PUBACK_BYTES = 4;

const server = createServer({ noDelay: true }, (socket) => {
  let isKnown = false;
  socket.on('data', (bytes) => {
    if (isKnown) return waiting.tick(bytes.length / PUBACK_BYTES);
    isKnown = true;
    sockets.add(socket);
    socket.write(CONNACK);
  });
  socket.on('error', () => undefined);
  socket.on('close', () => sockets.delete(socket));
});
await once(server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 }), 'listening');

obeyBench({
  port: (server.address() as AddressInfo).port,
  connected: () => sockets.size,
  async sendToAll(payload) {
    const frame = addressPublish(encodePublish('0'.repeat(24), payload), 1, false);
    const done = waiting.start(sockets.size);
    for (const socket of sockets) socket.write(frame);
    await done;
  },
});
