import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { freePort, type TestServer } from '../../packages/presence/test/start-server.ts';
import { status } from '../../packages/webhooks/test/receiver.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver, type WebhookReceiver } from '../support/api/webhook-receiver.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { startMongod } from '../support/mongod-server.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  type MeasuredContainer,
  startMeasuredContainer,
} from '../support/operators/measured-container.ts';
import { type Prometheus, startPrometheus } from '../support/operators/prometheus.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { openRedis } from '../support/redis.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

/*
 * Every alert of the rules fires here but CarillonCanarySlow: what delays the canary's pushes for two seconds delays some
 * beyond its timeout, which are failures. No kubelet runs, so a process of the test has its memory exposed under the names
 * of the kubelet's metrics.
 */
const MAX_CONNECTIONS = 25;
const TEST_MS = 600_000;
const PUSH_EVERY_MS = 150;
/**
 * Each push to an offline device blocks the worker for this long, and so many senders wait for it to be free again. Together
 * they block it for less than the second that a scrape may take.
 */
const BLOCKED_MS = 200;
const BLOCKING_SENDERS = 2;
/** The scheduler is frozen and resumed in turns, so that pushes are ten seconds late. */
const FREEZE_OF_SCHEDULER = { frozenMs: 13_000, runningMs: 3_000 };
/** The API takes 4,096 characters, APNs 4,096 bytes. */
const TOO_LARGE_FOR_APNS = 'é'.repeat(3_000);
/** Three different recipients tell an outage from what concerns one of them. */
const IPHONES = 3;
const APNS_OUTAGE = { refuse: true, dropEvery: 1 };
const NO_FAULTS = { refuse: false, dropEvery: null, refuseCredential: false };

let redis: RedisServer;
let mongod: TestServer;
let fixture: ProviderFixture;
let tenant: TestTenant;
let worker: ServiceProcess | undefined;
let prometheus: Prometheus;
let device: MqttDevice;
let iphones: ProviderDevice[];
let gateway: ServiceProcess | undefined;
let canaryOps: string;
let canary: Promise<unknown> | undefined;
let traffic: Promise<void> | undefined;
let isLargeForApns = false;
let isScheduling = false;
let webhook: WebhookReceiver | undefined;
let container: MeasuredContainer | undefined;
const stop = new AbortController();

async function startWorker(env: Record<string, string> = {}): Promise<void> {
  worker = await startDeliveryWorker(fixture.stack, {
    MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon`,
    REDIS_URL: redis.url,
    WEBHOOK_HOSTS: '127.0.0.1',
    ...env,
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
  const others = [worker, gateway, container].flatMap((one) => one?.ops ?? []);
  prometheus.setTargets([...services, canaryOps, ...others]);
}

/** Sends pushes to all devices until the end; those that fail in an outage are no matter. */
async function keepSending(): Promise<void> {
  while (!stop.signal.aborted) {
    const large = isLargeForApns ? { text: TOO_LARGE_FOR_APNS } : {};
    const send = (to: string | string[], data: object) =>
      tenant.api('POST', '/push', { to, data, time_to_live: 600 }).catch(() => undefined);
    const tokens = iphones.map(({ token }) => token);
    await Promise.all([send(device.token, { n: 1 }), send(tokens, { n: 1, ...large })]);
    if (isScheduling) await sendLater(device.token);
    await new Promise((resolve) => setTimeout(resolve, PUSH_EVERY_MS));
  }
}

/** Sends a push that is due in two seconds. */
async function sendLater(to: string): Promise<void> {
  const schedule = Math.floor(Date.now() / 1_000) + 2;
  const push = { to, data: { n: 2 }, schedule, time_to_live: 600 };
  await tenant.api('POST', '/push', push).catch(() => undefined);
}

/** Sends pushes to an offline device, each as soon as the worker responds to its probe again. */
async function keepBlocking(to: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await tenant.api('POST', '/push', { to, data: { n: 3 }, time_to_live: 600 });
    await worker?.probe('/livez').catch(() => undefined);
  }
}

/** Freezes and resumes the scheduler in turns. */
async function keepFreezing(signal: AbortSignal): Promise<void> {
  const { frozenMs, runningMs } = FREEZE_OF_SCHEDULER;
  while (!signal.aborted) {
    fixture.stack.kill('scheduler', 'SIGSTOP');
    await delay(frozenMs, undefined, { signal }).catch(() => undefined);
    fixture.stack.kill('scheduler', 'SIGCONT');
    await delay(runningMs, undefined, { signal }).catch(() => undefined);
  }
}

/** Runs loops until a task has ended. */
async function during(
  loops: readonly ((signal: AbortSignal) => Promise<void>)[],
  task: () => Promise<void>,
): Promise<void> {
  const end = new AbortController();
  const running = loops.map((loop) => loop(end.signal));
  try {
    await task();
  } finally {
    end.abort();
    await Promise.all(running);
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

async function startAll(): Promise<void> {
  [redis, mongod] = await Promise.all([createRedisServer(), startMongod()]);
  await redis.start();
  const MONGODB_URI = `mongodb://127.0.0.1:${mongod.port}/carillon`;
  await runCarillon(['migrate'], { env: { MONGODB_URI } });
  fixture = await openProviderFixture({
    deliveryWorkers: 0,
    env: { MONGODB_URI, REDIS_URL: redis.url },
  });
  tenant = await fixture.tenant();
  device = await newMqttDevice(tenant.dev);
  const registering = Array.from({ length: IPHONES }, () => registerIphone(tenant.dev));
  iphones = await Promise.all(registering);
  await device.connect();
  [prometheus, canaryOps] = [await startPrometheus(), `http://127.0.0.1:${await freePort()}`];
  await startWorker();
  canary = startCanary(join(createTemporaryFolder(), 'canary.json'));
  traffic = keepSending();
}

async function stopAll(): Promise<void> {
  stop.abort();
  process.kill(mongod.pid, 'SIGCONT');
  await traffic;
  await canary;
  await device?.disconnect();
  gateway?.kill('SIGTERM');
  await gateway?.exited;
  await worker?.stop();
  await container?.stop();
  await webhook?.stop();
  await prometheus?.stop();
  await fixture?.close();
  await mongod?.stop();
  await redis?.remove();
}

/** Defines a test of alerts, each of which waits for rules with a duration. */
function slowTest(name: string, run: () => Promise<void>): void {
  test(name, run, TEST_MS);
}

describe('with Prometheus', () => {
  beforeAll(startAll, TEST_MS);
  afterAll(stopAll, TEST_MS);

  slowTest('each query of the dashboards returns data', async () => {
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
  });

  slowTest('in normal operation no alert fires', async () => {
    const isCalm = async () =>
      (await prometheus.readAlerts()).every(({ state }) => state !== 'firing');
    await until(isCalm, { timeoutMs: 120_000, everyMs: 250, what: 'no alert' });
  });

  slowTest('a provider: failing recipients, a refused credential, an outage', async () => {
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
  });

  slowTest('a gateway: near its limit, then many devices go', async () => {
    gateway = await startSmallGateway();
    watchAll();
    const connected: MqttDevice[] = [];
    const dev = { ...tenant.dev, mqtt: `mqtt://127.0.0.1:${gateway.port}` };
    while (connected.length < MAX_CONNECTIONS - 1) {
      const one = await newMqttDevice(dev);
      await one.connect();
      connected.push(one);
    }
    await untilFiring('CarillonGatewayNearConnectionLimit');
    await Promise.all(connected.map((one) => one.disconnect()));
    await untilFiring('CarillonGatewayConnectionsFell');
    await untilQuiet('CarillonGatewayNearConnectionLimit', 'CarillonGatewayConnectionsFell');
  });

  slowTest('no worker: queues, old and growing work, the canary', async () => {
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
  });

  slowTest(
    'a busy worker, a webhook without receiver, a full container; then late pushes',
    async () => {
      const restore = await provokeThree();
      isScheduling = true;
      await restore();
      await during([keepFreezing], () => untilFiring('CarillonDeliverySlow'));
      isScheduling = false;
      await untilQuiet(
        ...['CarillonEventLoopSaturated', 'CarillonWebhooksOff', 'CarillonMemoryNearLimit'],
        ...['CarillonDeliverySlow', 'CarillonCanaryFailing'],
      );
    },
  );

  /** Waits until three alerts fire. @returns what ends their causes */
  async function provokeThree(): Promise<() => Promise<void>> {
    webhook = await addReceiver(tenant);
    container = await startMeasuredContainer();
    await worker?.stop();
    await startWorker({ FAILPOINTS: `rows:block=${BLOCKED_MS}` });
    const { token } = await newMqttDevice(tenant.dev);
    webhook.respondWith(status(410));
    container.toggle();
    const blocking = Array.from(
      { length: BLOCKING_SENDERS },
      () => (signal: AbortSignal) => keepBlocking(token, signal),
    );
    await during(blocking, () =>
      untilFiring('CarillonEventLoopSaturated', 'CarillonWebhooksOff', 'CarillonMemoryNearLimit'),
    );
    return async () => {
      webhook?.respondWith(status(200));
      await tenant.api('POST', `/webhooks/${webhook?.id}/on`);
      container?.toggle();
      await worker?.stop();
      await startWorker();
    };
  }

  slowTest('a scheduler that restarts again and again, and none at all', async () => {
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
  });

  slowTest('a Redis that is nearly full, until it has room', async () => {
    const client = await openRedis({ redis: redis.url });
    const setMaxMemory = (bytes: number) => client.config('SET', 'maxmemory', bytes);
    const [, used] = /^used_memory:(\d+)/m.exec(await client.info('memory')) ?? [];
    await setMaxMemory(Math.round(Number(used) * 1.1));
    await untilFiring('CarillonRedisMemoryNearLimit');
    await setMaxMemory(0);
    client.disconnect();
    await untilQuiet('CarillonRedisMemoryNearLimit');
  });

  slowTest('no Redis', async () => {
    await redis.kill();
    await untilFiring('CarillonRedisFailing');
    await redis.start();
    await untilQuiet('CarillonRedisFailing', 'CarillonCanaryFailing');
  });

  slowTest('no MongoDB: slow errors, and nothing is accepted', async () => {
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
  });
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
