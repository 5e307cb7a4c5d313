import { EventEmitter } from 'node:events';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { newObjectId } from '@carillon/core/ids';
import { createMetrics } from '@carillon/runtime/metrics';
import { openMongo } from '../../../../test/support/mongo.ts';
import { openStore, type TestStore } from '../../../../test/support/open-store.ts';
import { startDatabase } from '../../../../test/support/own-database.ts';
import { NO_ADDRESS_LIMITS } from '../../src/address-limits.ts';
import { createAppShares } from '../../src/app-shares.ts';
import type { Connection } from '../../src/connection.ts';
import { type Connections, createConnections } from '../../src/connections.ts';
import { NO_PROXY_DETECTOR } from '../../src/detect-proxy.ts';
import { createWorkerReplies } from '../../src/live-delivery.ts';
import { createGatewayMetrics, type GatewayMetrics } from '../../src/metrics.ts';
import { createPendingConnections } from '../../src/pending-connections.ts';
import { startMqttSession } from '../../src/session.ts';
import type { Transport } from '../../src/transport.ts';
import { AUTH_KEYS, TOKEN } from './random-streams.ts';

/** Result of a stream. */
export interface Trace {
  /** Packets handled and responses written, in order. */
  events: string[];
  /** `open`: more bytes are expected; `rejected`: closed with a CONNACK; `closed`: closed without a response. */
  end: 'open' | 'disconnected' | 'rejected' | 'closed';
}

/** A transport that records what is written to it. */
class RecordingTransport extends EventEmitter implements Transport {
  destroyed = false;
  writableLength = 0;
  readonly #events: string[];
  constructor(events: string[]) {
    super();
    this.#events = events;
  }
  write(bytes: Buffer): void {
    this.#events.push(`response ${bytes.toString('hex')}`);
  }
  end(bytes: Buffer = Buffer.alloc(0)): void {
    this.write(bytes);
  }
  destroy(): void {
    this.destroyed = true;
  }
  resume(): void {}
}

/** The gateway's session over a recording transport, with devices in a real MongoDB and without Redis. */
export type SessionUnderTest = Awaited<ReturnType<typeof startSessionUnderTest>>;

export async function startSessionUnderTest() {
  const { uri, stop } = await startDatabase();
  const store = await openStore({ uri, appName: 'test' });
  const mongo = await openMongo({ mongodb: uri });
  await mongo.db
    .collection<{ _id: string }>('devices')
    .insertOne({ _id: TOKEN, ...{ app: newObjectId(), platform: 'electron' } });
  await mongo.close();
  const metrics = createGatewayMetrics(createMetrics());
  return {
    /** Sends a stream to a new session, chunk by chunk. */
    run: (chunks: readonly Buffer[]): Promise<Trace> => runStream({ store, metrics }, chunks),
    async stop(): Promise<void> {
      metrics.stop();
      await store.close();
      await stop();
    },
  };
}

/** Creates connections that are in no presence registry and record their PUBACKs and closes. */
function createTracedConnections(metrics: GatewayMetrics, trace: Trace) {
  const channel = () => ({
    register: async () => undefined,
    unregister: async () => undefined,
    reply: () => undefined,
  });
  const shares = createAppShares(1);
  const replies = createWorkerReplies(channel, metrics);
  const lastSeen = { record: () => undefined, stop: async () => undefined };
  const { settle } = replies;
  const connections = createConnections({ channel, shares, settle, lastSeen, metrics });
  const traced: Connections = {
    ...connections,
    add(connection: Connection) {
      recordPubacks(connection, trace);
      return connections.add(connection);
    },
    close(connection: Connection, reason: string) {
      trace.end = reason === 'disconnected' ? 'disconnected' : 'closed';
      connections.close(connection, reason);
    },
  };
  return { connections: traced, shares, replies, receipts: { record: () => undefined } };
}

function recordPubacks(connection: Connection, trace: Trace): void {
  const acknowledge = connection.acknowledge.bind(connection);
  connection.acknowledge = (packetId) => {
    trace.events.push(`puback ${packetId}`);
    return acknowledge(packetId);
  };
}

async function runStream(
  { store, metrics }: { store: TestStore; metrics: GatewayMetrics },
  chunks: readonly Buffer[],
): Promise<Trace> {
  const trace: Trace = { events: [], end: 'open' };
  const transport = new RecordingTransport(trace.events);
  const pendingConnections = createPendingConnections(1, () => undefined);
  const pending = pendingConnections.add(transport, '');
  if (pending === undefined) throw new Error('a connection was not accepted');
  const lookups: Promise<unknown>[] = [];
  startMqttSession(
    {
      ...createTracedConnections(metrics, trace),
      pendingConnections,
      limits: NO_ADDRESS_LIMITS,
      proxyDetector: NO_PROXY_DETECTOR,
      authKeys: AUTH_KEYS,
      iosApps: { record: () => undefined },
      inboxReplay: { checkInbox: async () => undefined, replay: () => undefined },
      devices: {
        findForConnect(token) {
          const lookup = store.devices.findForConnect(token);
          lookups.push(lookup);
          return lookup;
        },
      },
      metrics: {
        ...metrics,
        countConnect(result: string) {
          if (result.startsWith('refused-')) trace.end = 'rejected';
          else if (result !== 'accepted') trace.end = 'closed';
        },
      },
    },
    pending,
  );
  for (const chunk of chunks) {
    if (chunk.length === 0 || transport.destroyed) continue;
    transport.emit('data', chunk);
    // For half of the chunks the CONNECT is authenticated before the next chunk.
    if (chunk.length % 2 === 0) await settle(lookups);
  }
  await settle(lookups);
  pendingConnections.stop();
  return trace;
}

async function settle(lookups: readonly Promise<unknown>[]): Promise<void> {
  await Promise.all(lookups);
  await yieldToEventLoop();
}
