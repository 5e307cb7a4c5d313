import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { Aedes, type Client } from 'aedes';
import { createCountdown, serveBenchCommands } from './server-process.ts';

/** The MQTT broker aedes, for comparison. */
const broker = await Aedes.createBroker();
const clients = new Set<Client>();
const pendingAcks = createCountdown();
broker.on('client', (client) => clients.add(client));
broker.on('clientDisconnect', (client) => clients.delete(client));
broker.on('ack', () => pendingAcks.countDown());

const server = createServer({ noDelay: true }, broker.handle);
await once(server.listen({ host: '127.0.0.1', port: 0, backlog: 4_096 }), 'listening');

serveBenchCommands({
  port: (server.address() as AddressInfo).port,
  connected: () => clients.size,
  async sendToAll(payload) {
    const done = pendingAcks.start(clients.size);
    const bytes = Buffer.from(payload);
    for (const client of clients) {
      const packet = { cmd: 'publish', topic: '0'.repeat(24), payload: bytes, qos: 1 } as const;
      client.publish({ ...packet, dup: false, retain: false }, () => undefined);
    }
    await done;
  },
});
