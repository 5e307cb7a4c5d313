import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';

const CONNECT = 1;
const PUBACK = 4;
const DISCONNECT = 14;

/** What devices meet: an API that registers and a gateway that lets in, both of them scripted. */
export interface Edge {
  /** For the command's environment. */
  env: { CARILLON_API: string; CARILLON_MQTT: string; CARILLON_API_KEY: string };
  /** `POST /push` and the like, as they came. */
  requests: { path: string; body: string }[];
  /** HTTP statuses for paths, or those of the next requests; 200 if absent. */
  statuses: Record<string, number | number[]>;
  /** CONNACK return codes of the next connects; then 0. */
  connacks: number[];
  /** Control packet types (MQTT 3.1.1, table 2.1) that devices sent. */
  packets: number[];
  /** Publishes to every device connected. */
  publish(topic: string, payload: string): void;
  stop(): Promise<void>;
}

export const PACKETS = { CONNECT, PUBACK, DISCONNECT };

/** Starts both on free ports. */
export async function startEdge(): Promise<Edge> {
  const links = new Set<Socket>();
  let registered = 0;
  const http = createHttpServer(async (request, response) => {
    const path = request.url ?? '';
    edge.requests.push({ path, body: await text(request) });
    const told = edge.statuses[path];
    const status = (Array.isArray(told) ? told.shift() : told) ?? 200;
    const device = { token: `t${++registered}`, auth: 'a' };
    const body = status === 200 ? device : { code: 'CODE', error: 'No.' };
    response.writeHead(status, { 'retry-after': '0' }).end(JSON.stringify(body));
  });
  const gateway = createServer((link) => {
    links.add(link.on('error', () => undefined).on('close', () => links.delete(link)));
    link.on('data', (bytes) => {
      const type = (bytes[0] ?? 0) >> 4;
      edge.packets.push(type);
      if (type === CONNECT) link.write(Buffer.from([0x20, 2, 0, edge.connacks.shift() ?? 0]));
    });
  });
  const edge: Edge = {
    env: {
      CARILLON_API: `http://127.0.0.1:${await listen(http)}`,
      CARILLON_MQTT: `mqtt://127.0.0.1:${await listen(gateway)}`,
      CARILLON_API_KEY: 'k',
    },
    requests: [],
    statuses: {},
    connacks: [],
    packets: [],
    publish: (topic, payload) => {
      for (const link of links) link.write(publishPacket(topic, payload));
    },
    stop: async () => {
      for (const link of links) link.destroy();
      http.closeAllConnections();
      await Promise.all([http, gateway].map((server) => once(server.close(), 'close')));
    },
  };
  return edge;
}

async function listen(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

/** PUBLISH with QoS 1 (MQTT 3.1.1, section 3.3), short enough for one byte of length. */
function publishPacket(topic: string, payload: string): Buffer {
  const [name, data] = [Buffer.from(topic), Buffer.from(payload)];
  const head = [0x32, name.length + data.length + 4, 0, name.length];
  return Buffer.concat([Buffer.from(head), name, Buffer.from([0, 1]), data]);
}
