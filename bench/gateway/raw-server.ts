import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { encodePublish } from '../../services/device-gateway/src/publish-packet.ts';
import { createCountdown, serveBenchCommands } from './server-process.ts';

/** The least that a server keeps of a device: its socket and the callback for its PUBACK. */
interface Device {
  socket: Socket;
  acknowledged: (() => void) | undefined;
}

/** The lower bound: bare sockets and one frame for all; all received data counts as a PUBACK, without parsing. */
const devices = new Set<Device>();
const pendingAcks = createCountdown();
const CONNACK = Buffer.from([0x20, 2, 0, 0]);

const server = createServer({ noDelay: true }, (socket) => {
  const device: Device = { socket, acknowledged: undefined };
  socket.on('data', () => {
    if (devices.has(device)) return device.acknowledged?.();
    devices.add(device);
    socket.write(CONNACK);
  });
  socket.on('error', () => undefined);
  socket.on('close', () => devices.delete(device));
});
await once(server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 }), 'listening');

serveBenchCommands({
  port: (server.address() as AddressInfo).port,
  connected: () => devices.size,
  async sendToAll(payload) {
    const frame = encodePublish('0'.repeat(24), payload).bytes;
    const done = pendingAcks.start(devices.size);
    for (const device of devices) {
      device.acknowledged = () => pendingAcks.countDown();
      device.socket.write(frame);
    }
    await done;
  },
});
