import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { encodePublish } from '../../services/device-gateway/src/publish-packet.ts';
import { createCountdown, obeyBench } from './server-process.ts';

/** What any server must know of a device: its socket, and who waits for its PUBACK. */
interface Device {
  socket: Socket;
  acknowledged: (() => void) | undefined;
}

/** The floor: sockets and one frame for all; what comes is taken for a PUBACK, nothing is looked at. */
const devices = new Set<Device>();
const waiting = createCountdown();
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

obeyBench({
  port: (server.address() as AddressInfo).port,
  connected: () => devices.size,
  async sendToAll(payload) {
    const frame = encodePublish('0'.repeat(24), payload).bytes;
    const done = waiting.start(devices.size);
    for (const device of devices) {
      device.acknowledged = () => waiting.tick();
      device.socket.write(frame);
    }
    await done;
  },
});
