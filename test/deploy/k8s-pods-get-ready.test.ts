import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { createHeader } from '../../services/device-gateway/test/proxy-header.ts';
import {
  connectPacket,
  openSocket,
  sendAndRead,
} from '../../services/device-gateway/test/raw-connection.ts';
import { NO_RIGHTS, readRights } from '../support/deploy/container.ts';
import { buildDataServers, createEngine, type Engine, ROOT } from '../support/deploy/engine.ts';
import { findWorkloads, type Workload } from '../support/k8s/manifest.ts';
import { type PodSettings, type RunningPod, startPod, untilReady } from '../support/k8s/pods.ts';
import { RENDERED, render } from '../support/k8s/render.ts';
import { readMetric } from '../support/metric-values.ts';
import { startMongod } from '../support/mongod-server.ts';
import { type Credentials, registerDevice } from '../support/register-device.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { createTlsServers } from '../support/tls-servers.ts';
import { until } from '../support/until.ts';

/** The first one migrates; the others wait for that. */
const SERVICES = ['scheduler', 'api', 'delivery-worker', 'device-gateway', 'dashboard', 'sandbox'];
const DEV = 'k8s/overlays/dev';
const PROD = 'k8s/overlays/prod';
/** For the sandbox and the canary, which no overlay has, and for components. */
const ALL = 'test/deploy/all-components';
const CONNECTION_ACCEPTED = [0x20, 2, 0, 0];
const MAX_BUILD_MS = 900_000;

jest.setTimeout(120_000);

const folder = createTemporaryFolder();
let engine: Engine;
const servers: TestServer[] = [];
const workloads = new Map<string, Workload[]>();
let secrets: Record<string, string> = {};
/** Names and specifications of the pods that were run: overlays have many of them in common. */
const played = new Set<string>();

/** Finds a workload in the overlay that is named, or in the first that has it. */
function findWorkload(name: string, overlay?: string): Workload {
  const candidates = overlay ? workloads.get(overlay) : [...workloads.values()].flat();
  const workload = candidates?.find((candidate) => candidate.name === name);
  if (workload === undefined) throw new Error(`${name} is not rendered`);
  return workload;
}

async function runPod<T>(
  name: string,
  use: (pod: RunningPod) => Promise<T>,
  { overlay, ...more }: Partial<PodSettings> & { overlay?: string } = {},
): Promise<T> {
  const settings = { folder, secrets, ...more };
  const workload = findWorkload(name, overlay);
  played.add(describePod(workload));
  const pod = await startPod(engine.program, workload, settings);
  try {
    return await use(pod);
  } finally {
    await pod.stop();
  }
}

beforeAll(async () => {
  // In this order: what several overlays have is run as dev has it.
  for (const one of [DEV, ...RENDERED]) workloads.set(one, findWorkloads(await render(one)));
  engine = await createEngine();
  await buildDataServers(engine);
  for (const name of [...SERVICES, 'canary']) {
    const { image } = findWorkload(name).container;
    await engine.build(name === 'canary' ? 'cli' : name, image, ['--layers']);
  }
  const mongod = await startMongod();
  servers.push(mongod);
  const redis = await startRedis();
  servers.push(redis);
  secrets = {
    MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon`,
    REDIS_URL: redis.url,
    API_KEY_PEPPER: 'pepper'.repeat(8),
    DEVICE_AUTH_KEYS: `1:${'ab'.repeat(32)}`,
    CREDENTIAL_KEYS: `1:${'cd'.repeat(32)}`,
    ...createCertificate(join(folder, 'created')),
  };
}, MAX_BUILD_MS);
afterAll(async () => {
  for (const server of servers) await server.stop();
  await engine?.close();
});

test.each(SERVICES)('%s gets ready under its own security context', async (name) => {
  await runPod(name, async (pod) => {
    await untilReady(pod);
    await expectConfined(name, pod, 65_532);
  });
});

test('the console in its image has the runbooks', async () => {
  await runPod('dashboard', async (pod) => {
    await untilReady(pod);
    const address = `http://${pod.addresses.DASHBOARD_LISTEN}/runbooks/CarillonApiSlow`;
    expect(await (await fetch(address)).text()).toContain('# CarillonApiSlow');
  });
});

test('the canary’s pushes arrive', async () => {
  await runPod('api', (api) =>
    runPod('device-gateway', (gateway) =>
      runPod('delivery-worker', async () => {
        const env = {
          CARILLON_API: `http://${api.addresses.API_LISTEN}`,
          CARILLON_MQTT: `mqtt://${gateway.addresses.MQTT_LISTEN}`,
        };
        await runPod('canary', delivers, { env, secrets: await createApp(secrets) });
      }),
    ),
  );
});

test('a device connects to the gateway of prod by TLS, behind a load balancer', async () => {
  const connect = async (api: RunningPod, gateway: RunningPod) => {
    await Promise.all([untilReady(api), untilReady(gateway)]);
    const { CARILLON_APP: app = '' } = await createApp(secrets);
    const device = await registerDevice({ api: `http://${api.addresses.API_LISTEN}`, app });
    const port = Number(gateway.addresses.MQTTS_LISTEN?.split(':')[1]);
    const reply = await connectBehindBalancer(port, secrets['ca.pem'] ?? '', device);
    expect(reply).toEqual(CONNECTION_ACCEPTED);
    await expectConfined('device-gateway', gateway, 65_532);
  };
  const overlay = { overlay: PROD };
  const withGateway = (api: RunningPod) =>
    runPod('device-gateway', (gateway) => connect(api, gateway), overlay);
  await runPod('api', withGateway, overlay);
});

test('every service gets ready with own authorities, and with a Redis for presence', async () => {
  const tls = await createTlsServers();
  const [redis, presence] = [await tls.startRedis(), await tls.startRedis()];
  const mongod = await tls.startMongod();
  servers.push(redis, presence, mongod);
  const own = '/run/authorities/mongodb.pem';
  const MONGODB_URI = `mongodb://127.0.0.1:${mongod.port}/carillon?tls=true&tlsCAFile=${own}`;
  const more = {
    overlay: ALL,
    secrets: {
      ...{ ...secrets, MONGODB_URI },
      ...{ REDIS_URL: redis.url, PRESENCE_REDIS_URL: presence.url },
      OIDC_CLIENT_SECRET: 'secret',
    },
    authorities: { 'mongodb.pem': tls.ca, 'redis.pem': tls.ca },
  };
  const names = SERVICES.filter((name) => name !== 'sandbox');
  for (const name of [...names, 'delivery-worker-providers']) await runPod(name, untilReady, more);
});

test('every other Deployment of the overlays gets ready', async () => {
  // The other one is run above, with the authorities that it needs.
  for (const overlay of RENDERED.filter((folder) => folder !== ALL))
    for (const workload of workloads.get(overlay) ?? [])
      if (workload.manifest.kind === 'Deployment' && !played.has(describePod(workload)))
        await runPod(workload.name, untilReady, { overlay });
});

async function delivers(canary: RunningPod): Promise<void> {
  const name = 'carillon_canary_delivery_seconds_count';
  const count = async () => (await readMetric(`http://127.0.0.1:${canary.port}`, name))[''] ?? 0;
  const options = { timeoutMs: 60_000, what: 'a push of the canary has arrived' };
  await until(async () => (await count()) > 0, options);
  await expectConfined('canary', canary, 65_532);
}

test('mongodb becomes a replica set, and a transaction is committed', async () => {
  await runPod('mongodb', async (pod) => {
    await useMongodb(pod.port);
    await expectConfined('mongodb', pod, 999);
  });
});

test('valkey keeps its data and evicts none', async () => {
  await runPod('valkey', async (pod) => {
    const redis = new Redis(pod.port, '127.0.0.1', { retryStrategy: () => 200 });
    try {
      expect(await redis.ping()).toBe('PONG');
      const settings = ['maxmemory-policy', 'appendonly', 'protected-mode'];
      for (const [index, value] of ['noeviction', 'yes', 'no'].entries()) {
        expect((await redis.config('GET', settings[index] ?? ''))?.[1]).toBe(value);
      }
    } finally {
      redis.disconnect();
    }
    await expectConfined('valkey', pod, 999);
  });
});

async function expectConfined(name: string, pod: RunningPod, user: number): Promise<void> {
  const limits = findWorkload(name).container.resources;
  const own = { uids: Array(4).fill(user), seccomp: '2' };
  expect(readRights(await pod.readPid())).toMatchObject({ ...own, ...NO_RIGHTS });
  const memory = await pod.readMemory();
  const [, digits, unit] = /^(\d+)(Mi|Gi)$/.exec(limits?.limits?.memory ?? '') ?? [];
  expect(memory).toBe(Number(digits) * 1_024 ** (unit === 'Gi' ? 3 : 2));
}

const describePod = ({ name, pod }: Workload) => `${name} ${JSON.stringify(pod)}`;

/** Creates an app for the canary. @returns its Secret */
async function createApp(env: Record<string, string>): Promise<Record<string, string>> {
  const create = async (...args: string[]): Promise<Record<string, string>> =>
    JSON.parse((await runCarillon(['--json', ...args], { env })).out);
  const { id: account = '' } = await create('account', 'create', 'Canary');
  const { id = '', apiKey = '' } = await create('app', 'create', 'Canary', '--account', account);
  return { CARILLON_APP: id, CARILLON_API_KEY: apiKey };
}

/** Makes the secrets' folder, as an operator does. @returns its certificate, as cert-manager names it, and the authority's */
function createCertificate(path: string): Record<string, string> {
  execFileSync(process.execPath, [join(ROOT, 'deploy/image/create-secrets.mjs'), path]);
  const read = (name: string) => readFileSync(join(path, 'tls', name), 'utf8');
  return {
    'tls.crt': read('server.pem'),
    'tls.key': read('server-key.pem'),
    'ca.pem': read('ca.pem'),
  };
}

/** Connects a device by TLS, with the header of a load balancer in front. @returns the first packet of the response */
async function connectBehindBalancer(
  port: number,
  ca: string,
  { token, auth }: Credentials,
): Promise<number[]> {
  const plain = openSocket(port);
  plain.write(createHeader('203.0.113.9'));
  const socket = connectTls({ socket: plain, ca });
  const packet = connectPacket(token, { password: Buffer.from(auth) });
  const reply = await sendAndRead(socket, packet, CONNECTION_ACCEPTED.length);
  socket.destroy();
  return reply;
}

/** Makes the replica set, as the migration does, and writes in a transaction. */
async function useMongodb(port: number): Promise<void> {
  const client = new MongoClient(`mongodb://127.0.0.1:${port}/?directConnection=true`);
  try {
    const config = { _id: 'carillon', members: [{ _id: 0, host: `127.0.0.1:${port}` }] };
    await client.db('admin').command({ replSetInitiate: config });
    const isPrimary = async () =>
      (await client.db('admin').command({ hello: 1 })).isWritablePrimary === true;
    await until(isPrimary, { timeoutMs: 30_000, what: 'the server is the primary' });
    const written = await client.withSession((session) =>
      session.withTransaction(() =>
        client.db('carillon').collection('written').insertOne({}, { session }),
      ),
    );
    expect(written.acknowledged).toBe(true);
  } finally {
    await client.close();
  }
}
