import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { MongoClient } from 'mongodb';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { buildDataServers, createEngine, type Engine } from '../support/deploy/engine.ts';
import { findWorkloads, parseMebibytes, type Workload } from '../support/k8s/manifest.ts';
import { type PlayedPod, playPod, untilReady } from '../support/k8s/pods.ts';
import { render } from '../support/k8s/render.ts';
import { readMetric } from '../support/metric-values.ts';
import { startMongod } from '../support/mongod-server.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard', 'sandbox'];
const MAX_BUILD_MS = 900_000;

describe('the pods of Kubernetes, played by podman', () => {
  const folder = createTemporaryFolder();
  let engine: Engine;
  const servers: TestServer[] = [];
  let workloads: Workload[] = [];
  let secrets: Record<string, string> = {};

  function findWorkload(name: string): Workload {
    const workload = workloads.find((candidate) => candidate.name === name);
    if (workload === undefined) throw new Error(`${name} is not rendered`);
    return workload;
  }

  async function play<T>(
    name: string,
    use: (pod: PlayedPod) => Promise<T>,
    more: { secrets?: Record<string, string>; env?: Record<string, string> } = {},
  ): Promise<T> {
    const settings = { folder, secrets, ...more };
    const pod = await playPod(engine.program, findWorkload(name), settings);
    try {
      return await use(pod);
    } finally {
      await pod.stop();
    }
  }

  beforeAll(async () => {
    // The second for the sandbox, which no overlay has.
    const folders = ['k8s/overlays/dev', 'test/deploy/all-components'];
    workloads = findWorkloads((await Promise.all(folders.map(render))).flat());
    engine = await createEngine();
    await buildDataServers(engine);
    for (const name of [...SERVICES, 'migrate']) {
      const { image } = findWorkload(name).container;
      await engine.build(name === 'migrate' ? 'cli' : name, image, ['--layers']);
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
    };
  }, MAX_BUILD_MS);
  afterAll(async () => {
    for (const server of servers) await server.stop();
    await engine?.close();
  });

  test('migrate ends well under its own security context', async () => {
    const { exitCode } = await play('migrate', (pod) =>
      until(
        async () => {
          const state = await pod.inspect();
          return !state.isRunning && state;
        },
        { timeoutMs: 40_000 },
      ),
    );
    expect(exitCode).toBe(0);
  });

  test.each(SERVICES)('%s gets ready under its own security context', async (name) => {
    await play(name, async (pod) => {
      await untilReady(pod);
      await expectConfined(name, pod, 65_532);
    });
  });

  test('the canary’s pushes arrive', async () => {
    await play('api', (api) =>
      play('device-gateway', (gateway) =>
        play('delivery-worker', async () => {
          const env = {
            CARILLON_API: `http://${api.addresses.API_LISTEN}`,
            CARILLON_MQTT: `mqtt://${gateway.addresses.MQTT_LISTEN}`,
          };
          await play('canary', delivers, { env, secrets: await createApp(secrets) });
        }),
      ),
    );
  }, 120_000);

  async function delivers(canary: PlayedPod): Promise<void> {
    const name = 'carillon_canary_delivery_seconds_count';
    const count = async () => (await readMetric(`http://127.0.0.1:${canary.port}`, name))[''] ?? 0;
    const options = { timeoutMs: 60_000, what: 'a push of the canary has arrived' };
    await until(async () => (await count()) > 0, options);
    await expectConfined('canary', canary, 65_532);
  }

  test('mongodb becomes a replica set, and a transaction is committed', async () => {
    await play('mongodb', async (pod) => {
      await useMongodb(pod.port);
      await expectConfined('mongodb', pod, 999);
    });
  });

  test('valkey keeps its data and evicts none', async () => {
    await play('valkey', async (pod) => {
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

  async function expectConfined(name: string, pod: PlayedPod, user: number): Promise<void> {
    const limits = findWorkload(name).container.resources;
    const { status, root } = await pod.readStatus();
    expect(status).toMatchObject({
      Uid: Array(4).fill(user).join('\t'),
      CapEff: '0000000000000000',
      CapBnd: '0000000000000000',
      NoNewPrivs: '1',
      Seccomp: '2',
    });
    expect(root.split(',')).toContain('ro');
    const { memory } = await pod.inspect();
    expect(memory).toBe(parseMebibytes(limits?.limits?.memory) * 1_024 * 1_024);
  }
});

/** Creates an app for the canary. @returns its Secret */
async function createApp(env: Record<string, string>): Promise<Record<string, string>> {
  const create = async (...args: string[]): Promise<Record<string, string>> =>
    JSON.parse((await runCarillon(['--json', ...args], { env })).out);
  const { id: account = '' } = await create('account', 'create', 'Canary');
  const { id = '', apiKey = '' } = await create('app', 'create', 'Canary', '--account', account);
  return { CARILLON_APP: id, CARILLON_API_KEY: apiKey };
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
