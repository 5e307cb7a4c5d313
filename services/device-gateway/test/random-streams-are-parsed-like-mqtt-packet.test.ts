import { EventEmitter } from 'node:events';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { newObjectId } from '@carillon/core/ids';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { generate } from 'mqtt-packet';
import { NO_ADDRESS_LIMITS } from '../src/address-limits.ts';
import { createAppShares } from '../src/app-shares.ts';
import type { Connection } from '../src/connection.ts';
import { type Connections, createConnections } from '../src/connections.ts';
import { NO_PROXY_DETECTOR } from '../src/detect-proxy.ts';
import { MAX_PACKET_BYTES, ProtocolError, splitFrames } from '../src/frames.ts';
import { createWorkerReplies } from '../src/live-delivery.ts';
import { createGatewayMetrics, type GatewayMetrics } from '../src/metrics.ts';
import { createPendingConnections } from '../src/pending-connections.ts';
import { encodePublish, writePublish } from '../src/publish-packet.ts';
import { startMqttSession } from '../src/session.ts';
import type { Transport } from '../src/transport.ts';
import { readWithMqttPacket, type Trace } from './fuzz/oracle.ts';
import {
  AUTH_KEYS,
  createRandom,
  createStream,
  splitRandomly,
  TOKEN,
} from './fuzz/random-streams.ts';

/** CARILLON_FUZZ_STREAMS=100000 sets a thorough run; CARILLON_FUZZ_SEED repeats a seed that failed. */
const STREAMS = Number(process.env.CARILLON_FUZZ_STREAMS ?? 5_000);
const SEED = Number(process.env.CARILLON_FUZZ_SEED ?? Date.now() % 1_000_000_000);

const DEADLINE_MS = 30_000 + STREAMS * 15;

/** The only device. */
const DEVICE = { _id: TOKEN, app: newObjectId(), platform: 'electron' } as const;

let metrics: GatewayMetrics;
beforeAll(() => {
  metrics = createGatewayMetrics(createMetrics());
});
afterAll(() => metrics.stop());

test(
  `the gateway parses ${STREAMS} random streams like mqtt-packet (seed ${SEED})`,
  async () => {
    const counts: Record<string, number> = {};
    for (let n = 0; n < STREAMS; n += 1) {
      const random = createRandom(SEED + n);
      const bytes = createStream(random);
      const chunks = splitRandomly(random, bytes);
      const expected = readWithMqttPacket(chunks);
      const actual = await runStream(chunks);
      const kind =
        expected.strictness === undefined ? expected.end : `stricter: ${expected.strictness}`;
      counts[kind] = (counts[kind] ?? 0) + 1;
      const { events, end } = expected;
      const expectedTrace = { events, end: expected.strictness === undefined ? end : 'closed' };
      const at = { seed: SEED + n, bytes: bytes.toString('hex', 0, 400) };
      // A comparison with `expect` takes longer than all the rest.
      if (JSON.stringify(actual) === JSON.stringify(expectedTrace)) continue;
      expect({ ...at, ...actual }).toEqual({ ...at, ...expectedTrace });
    }
    process.stdout.write(`${JSON.stringify(counts)}\n`);
  },
  DEADLINE_MS,
);

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

/** Creates connections that are in no presence registry and record their PUBACKs and closes. */
function createTracedConnections(trace: Trace) {
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
      trace.end = reason === 'disconnected' || reason === 'failed' ? reason : 'closed';
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

/** Sends a stream to a new session of the gateway over a recording transport, chunk by chunk, without Redis. */
async function runStream(chunks: readonly Buffer[]): Promise<Trace> {
  const trace: Trace = { events: [], end: 'open' };
  const transport = new RecordingTransport(trace.events);
  const pendingConnections = createPendingConnections(1, () => undefined);
  const pending = pendingConnections.add(transport, '');
  if (pending === undefined) throw new Error('a connection was not accepted');
  const lookups: Promise<unknown>[] = [];
  startMqttSession(
    {
      ...createTracedConnections(trace),
      pendingConnections,
      limits: NO_ADDRESS_LIMITS,
      proxyDetector: NO_PROXY_DETECTOR,
      authKeys: AUTH_KEYS,
      iosApps: { record: () => undefined },
      lastSeen: { record: () => undefined },
      inboxReplay: { checkInbox: async () => undefined, replay: () => undefined },
      devices: {
        findForConnect(token) {
          const lookup = Promise.resolve(token === TOKEN ? DEVICE : undefined);
          lookups.push(lookup);
          return lookup;
        },
        markConnected: async () => undefined,
      },
      metrics: {
        ...metrics,
        countConnect(result: string) {
          if (result.startsWith('refused-')) trace.end = 'rejected';
          else if (result === 'failed') trace.end = 'failed';
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

test.each([
  ['256 megabytes', [0x82, 0xff, 0xff, 0xff, 0x7f]],
  ['more than 8 KB, without its end', [0x82, 0xff, 0xff]],
  ['more than four bytes', [0x82, 0x80, 0x80, 0x80, 0x80]],
])('a length of %s is rejected before the packet is buffered', (_what, bytes) => {
  expect(() => splitFrames(Buffer.from(bytes), () => true)).toThrow(ProtocolError);
});

test('a packet of exactly the maximum length is accepted', () => {
  const longest = Buffer.alloc(3 + MAX_PACKET_BYTES);
  longest.set([0x82, (MAX_PACKET_BYTES & 0x7f) | 0x80, MAX_PACKET_BYTES >> 7]);
  const frames: Buffer[] = [];
  const rest = splitFrames(longest, (frame) => frames.push(Buffer.from(frame)) > 0);
  expect([frames, rest.length]).toEqual([[longest], 0]);
});

test('a PUBLISH is encoded byte for byte like mqtt-packet does', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', maxLength: 400 }),
      fc.integer({ min: 1, max: 65_535 }),
      fc.boolean(),
      (payload, messageId, dup) => {
        const topic = '0123456789abcdef01234567';
        const [actual] = captureWrites(true, (transport) =>
          writePublish(encodePublish(topic, payload), messageId, dup, transport),
        );
        const expected = generate({
          cmd: 'publish',
          topic,
          payload,
          qos: 1,
          dup,
          retain: false,
          messageId,
        });
        expect(actual?.equals(expected)).toBe(true);
      },
    ),
  );
});

test('a PUBLISH is not changed while a socket buffers it', () => {
  const packet = encodePublish('topic', 'payload');
  const held = captureWrites(false, (transport) => {
    for (const id of [1, 2, 3]) writePublish(packet, id, false, transport);
  });
  expect(held.map((bytes) => bytes.readUInt16BE(packet.packetIdOffset))).toEqual([1, 2, 3]);
});

/** Returns the buffers written to a transport; one that flushes immediately buffers nothing. */
function captureWrites(
  flushesImmediately: boolean,
  write: (transport: { write(bytes: Buffer): void; writableLength: number }) => void,
): Buffer[] {
  const chunks: Buffer[] = [];
  write({
    write(bytes) {
      chunks.push(bytes);
      if (!flushesImmediately) this.writableLength += bytes.length;
    },
    writableLength: 0,
  });
  return chunks;
}
