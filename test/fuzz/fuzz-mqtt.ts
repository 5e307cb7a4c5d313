import { randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import {
  createRandom,
  createStream,
  type Random,
  type StreamCredentials,
  splitRandomly,
} from '../../services/device-gateway/test/fuzz/random-streams.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { readMetric } from '../support/metric-values.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

const STREAMS_AT_ONCE = 20;
const DEVICES = 10;
const CLOSE_TIMEOUT_MS = 60_000;
/** Another device gets a push after so many streams. */
const STREAMS_PER_PUSH = 100;

/** Result of the streams of a run. */
export interface MqttFuzzReport {
  streams: number;
  /** Pushes that another device received meanwhile. */
  received: number;
  violations: string[];
  /** Credentials of the devices in whose name packets were sent: no process may have logged them. */
  secrets: string[];
}

/** Sends random packets to the gateway, while another device is connected and gets pushes. The seed decides all of them. */
export async function fuzzMqtt(
  tenant: Pick<TestTenant, 'dev' | 'api'>,
  { streams, seed }: { streams: number; seed: number },
): Promise<MqttFuzzReport> {
  const violations: string[] = [];
  const devices = await Promise.all(
    Array.from({ length: DEVICES }, () => registerDevice(tenant.dev)),
  );
  const served = await newMqttDevice(tenant.dev);
  await served.connect();
  let received = 0;
  try {
    for (let sent = 0; sent < streams && violations.length === 0; sent += STREAMS_AT_ONCE) {
      const numbers = Array.from(
        { length: Math.min(STREAMS_AT_ONCE, streams - sent) },
        (_, n) => sent + n,
      );
      const found = await Promise.all(
        numbers.map((n) => playStream(tenant.dev.mqtt, createRandom(seed + n), devices)),
      );
      violations.push(...found.flat());
      if (sent % STREAMS_PER_PUSH !== 0) continue;
      if (await getsPush(tenant, served)) received += 1;
      else violations.push(`after ${sent} streams another device got no push`);
    }
    violations.push(...(await findOpenConnections(tenant)));
  } finally {
    await served.disconnect();
  }
  return { streams, received, violations, secrets: devices.map(({ auth }) => auth) };
}

async function getsPush(tenant: Pick<TestTenant, 'api'>, device: MqttDevice): Promise<boolean> {
  const mark = randomUUID();
  await tenant.api('POST', '/push', { to: device.token, data: { mark } });
  const hasArrived = () => device.arrivals.some(({ payload }) => payload.includes(mark));
  return until(hasArrived, { timeoutMs: CLOSE_TIMEOUT_MS }).catch(() => false);
}

/** Waits until only the device that was served is connected. */
async function findOpenConnections({ dev }: Pick<TestTenant, 'dev'>): Promise<string[]> {
  const gateways = dev.processes.filter(({ service }) => service === 'device-gateway');
  const countOf = async ({ ops }: { ops?: string }) =>
    (await readMetric(ops, 'carillon_gateway_connections'))[''] ?? 0;
  const count = async () =>
    (await Promise.all(gateways.map(countOf))).reduce((sum, connections) => sum + connections, 0);
  const isAlone = until(async () => (await count()) === 1, { timeoutMs: CLOSE_TIMEOUT_MS });
  return isAlone.then(
    () => [],
    async () => [`${await count()} connections at the end, not 1`],
  );
}

/** Sends one stream and closes its side. Returns the fault: the gateway must close its side after every stream. */
async function playStream(
  mqtt: string,
  random: Random,
  devices: readonly StreamCredentials[],
): Promise<string[]> {
  const bytes = random.pick(STREAM_MAKERS)(random, random.pick(devices));
  const { hostname, port } = new URL(mqtt);
  const socket = connect(Number(port), hostname);
  // The gateway may hang up in the middle of the stream.
  socket.on('error', () => undefined);
  socket.resume();
  for (const chunk of splitRandomly(random, bytes)) {
    if (chunk.length === 0 || socket.destroyed) continue;
    socket.write(chunk);
    // Chunks that are written in one turn may arrive as one.
    await yieldToEventLoop();
  }
  socket.end();
  const isClosed = until(() => socket.closed, { timeoutMs: CLOSE_TIMEOUT_MS, everyMs: 5 });
  return isClosed.then(
    () => [],
    () => {
      socket.destroy();
      return [`not closed within ${CLOSE_TIMEOUT_MS} ms: ${bytes.toString('hex', 0, 400)}`];
    },
  );
}

/** Weighted by repetition: most are packets of a device, unchanged or mutated. */
const STREAM_MAKERS: readonly ((random: Random, device: StreamCredentials) => Buffer)[] = [
  createStream,
  createStream,
  createStream,
  createStream,
  // With the wrong credentials.
  (random, { token }) => createStream(random, { token, auth: 'f'.repeat(64) }),
  (random) => createBytes(random, 1 + random.below(300)),
  // A length beyond the limit, and some of what it announces.
  (random) =>
    Buffer.concat([
      Buffer.from([random.pick([0x10, 0x30, 0x40, 0x82]), 0xff, 0xff, random.pick([0x03, 0x7f])]),
      createBytes(random, random.pick([0, 10_000, 200_000])),
    ]),
  // Behind a valid CONNECT.
  (random, device) =>
    Buffer.concat([createStream(random, device), createBytes(random, random.below(9_000))]),
  // HTTP and TLS at the port of MQTT.
  (random) =>
    Buffer.from(random.pick(['GET / HTTP/1.1\r\nHost: x\r\n\r\n', '\x16\x03\x01\x02\x00\x01'])),
];

function createBytes(random: Random, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => random.below(256)));
}
