import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { startMongod } from '../support/mongod-server.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type Prometheus, startPrometheus } from '../support/operators/prometheus.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

/*
 * Provoked elsewhere than here, in the unit tests of the rules: CarillonDeliverySlow, CarillonCanarySlow (a slow way that
 * still ends in receipts), CarillonEventLoopSaturated, and CarillonMemoryNearLimit (its metrics are the kubelet's).
 */
const MAX_CONNECTIONS = 25;
const TEST_MS = 600_000;
const PUSH_EVERY_MS = 150;
/** The API takes 4,096 characters, APNs 4,096 bytes. */
const TOO_LARGE_FOR_APNS = 'é'.repeat(3_000);
const APNS_OUTAGE = { refuse: true, dropEvery: 1 };
const NO_FAULTS = { refuse: false, dropEvery: null, refuseCredential: false };

let redis: RedisServer;
let mongod: TestServer;
let fixture: ProviderFixture;
let tenant: TestTenant;
let worker: ServiceProcess | undefined;
let prometheus: Prometheus;
let device: MqttDevice;
let iphone: ProviderDevice;
let gateway: ServiceProcess | undefined;
let canaryOps: string;
let canary: Promise<unknown> | undefined;
let traffic: Promise<void> | undefined;
let isLargeForApns = false;
const stop = new AbortController();

async function startWorker(): Promise<void> {
  worker = await startDeliveryWorker(fixture.stack, {
    MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon`,
    REDIS_URL: redis.url,
  });
  await worker.untilReady();
  watchAll();
}

/** Starts a gateway with a limit that a test reaches; the one of the stack stays as it is. */
async function startSmallGateway(): Promise<ServiceProcess> {
  const { home } = fixture.stack;
  const { deviceAuthKeys } = JSON.parse(readFileSync(join(home, 'secrets.json'), 'utf8'));
  const started = await startService('device-gateway', {
    MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon`,
    REDIS_URL: redis.url,
    DEVICE_AUTH_KEYS: deviceAuthKeys,
    MAX_CONNECTIONS: String(MAX_CONNECTIONS),
  });
  await started.untilReady();
  return started;
}

function watchAll(): void {
  const services = fixture.stack.dev.processes.flatMap(({ ops }) => ops ?? []);
  const others = [worker, gateway].flatMap((one) => one?.ops ?? []);
  prometheus.setTargets([...services, canaryOps, ...others]);
}

/** Sends pushes to both devices until the end; those that fail in an outage are no matter. */
async function keepSending(): Promise<void> {
  while (!stop.signal.aborted) {
    const large = isLargeForApns ? { text: TOO_LARGE_FOR_APNS } : {};
    const send = (to: string, data: object) =>
      tenant.api('POST', '/push', { to, data, time_to_live: 600 }).catch(() => undefined);
    await Promise.all([send(device.token, { n: 1 }), send(iphone.token, { n: 1, ...large })]);
    await new Promise((resolve) => setTimeout(resolve, PUSH_EVERY_MS));
  }
}

function startCanary(state: string): Promise<unknown> {
  const { app, apiKey } = tenant.dev;
  const args = ['--app', app, '--state', state, '--interval', '1', '--timeout', '3'];
  return runCarillon(['canary', ...args, '--listen', new URL(canaryOps).host], {
    env: { CARILLON_HOME: fixture.stack.home, CARILLON_API_KEY: apiKey },
    signal: stop.signal,
  });
}

/** Waits until all of these alerts have fired, in any order, and checks their texts. */
async function untilFiring(...names: string[]): Promise<void> {
  const alerts = await Promise.all(names.map((name) => prometheus.untilFiring(name)));
  for (const { annotations } of alerts) expect(JSON.stringify(annotations)).not.toContain('<error');
}

async function untilQuiet(...names: string[]): Promise<void> {
  await Promise.all(names.map((name) => prometheus.untilQuiet(name)));
}

async function findOps(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' ? `http://127.0.0.1:${address?.port}` : '';
}

describe('with Prometheus', () => {
  beforeAll(async () => {
    [redis, mongod] = await Promise.all([createRedisServer(), startMongod()]);
    await redis.start();
    const MONGODB_URI = `mongodb://127.0.0.1:${mongod.port}/carillon`;
    await runCarillon(['migrate'], { env: { MONGODB_URI } });
    fixture = await openProviderFixture({
      deliveryWorkers: 0,
      env: { MONGODB_URI, REDIS_URL: redis.url },
    });
    tenant = await fixture.tenant();
    [device, iphone] = [await newMqttDevice(tenant.dev), await registerIphone(tenant.dev)];
    await device.connect();
    [prometheus, canaryOps] = [await startPrometheus(), await findOps()];
    await startWorker();
    canary = startCanary(join(createTemporaryFolder(), 'canary.json'));
    traffic = keepSending();
  }, TEST_MS);
  afterAll(async () => {
    stop.abort();
    process.kill(mongod.pid, 'SIGCONT');
    await traffic;
    await canary;
    await device?.disconnect();
    gateway?.kill('SIGTERM');
    await gateway?.exited;
    await worker?.stop();
    await prometheus?.stop();
    await fixture?.close();
    await mongod?.stop();
    await redis?.remove();
  }, TEST_MS);

  test(
    'each query of the dashboards returns data',
    async () => {
      // Failed recipients and closed connections have no series before the first.
      isLargeForApns = true;
      await device.disconnect();
      await device.connect();
      const queries = readQueries();
      expect(queries.length).toBeGreaterThan(20);
      for (const query of queries) {
        const text = query.replaceAll('$__rate_interval', '60s');
        const hasData = async () => (await prometheus.countSeries(text)) > 0;
        await until(hasData, { timeoutMs: 60_000, everyMs: 250, what: text });
      }
      isLargeForApns = false;
    },
    TEST_MS,
  );

  test(
    'in normal operation no alert fires',
    async () => {
      const isCalm = async () =>
        (await prometheus.readAlerts()).every(({ state }) => state !== 'firing');
      await until(isCalm, { timeoutMs: 120_000, everyMs: 250, what: 'no alert' });
    },
    TEST_MS,
  );

  test(
    'a provider: failing recipients, a refused credential, an outage',
    async () => {
      isLargeForApns = true;
      await untilFiring('CarillonRecipientsFailing');
      isLargeForApns = false;
      await fixture.sandbox.setFaults('apns', { refuseCredential: true });
      await untilFiring('CarillonProviderCredentialRefused');
      await fixture.sandbox.setFaults('apns', { ...NO_FAULTS, ...APNS_OUTAGE });
      await untilFiring('CarillonProviderCircuitOpen');
      await fixture.sandbox.setFaults('apns', NO_FAULTS);
      await untilQuiet(
        'CarillonRecipientsFailing',
        'CarillonProviderCredentialRefused',
        'CarillonProviderCircuitOpen',
      );
    },
    TEST_MS,
  );

  test(
    'a gateway: near its limit, then many devices go',
    async () => {
      gateway = await startSmallGateway();
      watchAll();
      const crowd: MqttDevice[] = [];
      const dev = { ...tenant.dev, mqtt: `mqtt://127.0.0.1:${gateway.port}` };
      while (crowd.length < MAX_CONNECTIONS - 1) {
        const one = await newMqttDevice(dev);
        await one.connect();
        crowd.push(one);
      }
      await untilFiring('CarillonGatewayNearConnectionLimit');
      await Promise.all(crowd.map((one) => one.disconnect()));
      await untilFiring('CarillonGatewayConnectionsFell');
      await untilQuiet('CarillonGatewayNearConnectionLimit', 'CarillonGatewayConnectionsFell');
    },
    TEST_MS,
  );

  test(
    'no worker: queues, old and growing work, the canary',
    async () => {
      await worker?.stop();
      worker = undefined;
      const names = [
        'CarillonQueueWithoutWorker',
        'CarillonPendingWorkOld',
        'CarillonPendingWorkGrowing',
        'CarillonCanaryFailing',
      ];
      await untilFiring(...names);
      await startWorker();
      await untilQuiet(...names);
    },
    TEST_MS,
  );

  test(
    'a scheduler that restarts again and again, and none at all',
    async () => {
      const { stack } = fixture;
      for (let n = 0; n < 3; n++) {
        const pid = stack.kill('scheduler', 'SIGKILL');
        await stack.waitForRestart('scheduler', pid);
        // A start between two scrapes would go unseen.
        const starts = `changes(process_start_time_seconds[5m]) > ${n}`;
        const isSeen = async () => (await prometheus.countSeries(starts)) > 0;
        await until(isSeen, { timeoutMs: 30_000, what: starts });
      }
      await untilFiring('CarillonProcessRestarts');
      stack.kill('scheduler', 'SIGSTOP');
      try {
        await untilFiring('CarillonNoScheduler');
      } finally {
        stack.kill('scheduler', 'SIGCONT');
      }
      await untilQuiet('CarillonProcessRestarts', 'CarillonNoScheduler');
    },
    TEST_MS,
  );

  test(
    'no Redis',
    async () => {
      await redis.kill();
      await untilFiring('CarillonRedisFailing');
      await redis.start();
      await untilQuiet('CarillonRedisFailing', 'CarillonCanaryFailing');
    },
    TEST_MS,
  );

  test(
    'no MongoDB: slow errors, and nothing is accepted',
    async () => {
      const names = [
        'CarillonMongoDBFailing',
        'CarillonAcceptingImpossible',
        'CarillonApiErrorRate',
        'CarillonApiSlow',
      ];
      process.kill(mongod.pid, 'SIGSTOP');
      await untilFiring(...names);
      process.kill(mongod.pid, 'SIGCONT');
      await untilQuiet(...names);
    },
    TEST_MS,
  );
});

function readQueries(): string[] {
  const paths = globSync('k8s/components/monitoring/dashboards/*.json', { cwd: ROOT });
  return paths.flatMap((path) => {
    const { panels } = JSON.parse(readFileSync(join(ROOT, path), 'utf8')) as {
      panels: { targets: { expr: string }[] }[];
    };
    return panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  });
}
