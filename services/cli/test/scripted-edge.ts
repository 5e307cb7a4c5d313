import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';

const CONNECT = 1;
const PUBACK = 4;
const DISCONNECT = 14;

/** Scripted API and MQTT gateway for simulated devices. */
export interface ScriptedEdge {
  /** Variables for the command's environment. */
  env: NodeJS.ProcessEnv;
  /** Requests that the API received, in order. */
  requests: { path: string; body: string }[];
  /** HTTP status per path, or the statuses of its next requests; 200 when absent. */
  statuses: Record<string, number | number[]>;
  /** Retry-After of each response in seconds. */
  retryAfter: number;
  /** CONNACK return codes of the next connects; 0 for later ones. */
  connacks: number[];
  /** Types of the control packets (MQTT 3.1.1, table 2.1) that devices sent. */
  packets: number[];
  /** Publishes to every connected device. */
  publish(topic: string, payload: string): void;
  stop(): Promise<void>;
}

export const PACKETS = { CONNECT, PUBACK, DISCONNECT };

/** Starts the API and the gateway on free ports. */
export async function startScriptedEdge(): Promise<ScriptedEdge> {
  const connections = new Set<Socket>();
  let registeredCount = 0;
  const http = createHttpServer(async (request, response) => {
    const path = request.url ?? '';
    edge.requests.push({ path, body: await text(request) });
    const scripted = edge.statuses[path];
    const status = (Array.isArray(scripted) ? scripted.shift() : scripted) ?? 200;
    const device = { token: `t${++registeredCount}`, auth: 'a' };
    const body = status === 200 ? device : { code: 'CODE', error: 'No.' };
    response
      .writeHead(status, { 'retry-after': String(edge.retryAfter) })
      .end(JSON.stringify(body));
  });
  const gateway = createServer((connection) => {
    connections.add(
      connection.on('error', () => undefined).on('close', () => connections.delete(connection)),
    );
    connection.on('data', (bytes) => {
      const type = (bytes[0] ?? 0) >> 4;
      edge.packets.push(type);
      if (type === CONNECT) connection.write(Buffer.from([0x20, 2, 0, edge.connacks.shift() ?? 0]));
    });
  });
  const edge: ScriptedEdge = {
    env: {
      CARILLON_API: `http://127.0.0.1:${await listen(http)}`,
      CARILLON_MQTT: `mqtt://127.0.0.1:${await listen(gateway)}`,
      CARILLON_API_KEY: 'k',
    },
    requests: [],
    statuses: {},
    retryAfter: 0,
    connacks: [],
    packets: [],
    publish: (topic, payload) => {
      for (const connection of connections) connection.write(publishPacket(topic, payload));
    },
    stop: async () => {
      for (const connection of connections) connection.destroy();
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

/** Encodes a PUBLISH with QoS 1 (MQTT 3.1.1, section 3.3) whose length fits in one byte. */
function publishPacket(topic: string, payload: string): Buffer {
  const [name, data] = [Buffer.from(topic), Buffer.from(payload)];
  const head = [0x32, name.length + data.length + 4, 0, name.length];
  return Buffer.concat([Buffer.from(head), name, Buffer.from([0, 1]), data]);
}
