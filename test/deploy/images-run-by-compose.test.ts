import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { LIMITS } from '../../packages/core/src/limits.ts';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { NO_RIGHTS, readMemory, readPid, readRights } from '../support/deploy/container.ts';
import {
  buildDataServers,
  buildProxy,
  createEngine,
  type Engine,
  ROOT,
} from '../support/deploy/engine.ts';
import { createNewUser, listCommands, type NewUser } from '../support/deploy/new-user.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { ensureMosquitto } from '../support/gateway/real-clients.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'dashboard'];
const CONTAINERS = [...SERVICES, 'mongodb', 'valkey'];
const PROJECT = `carillon-test-${process.pid}`;
const MAX_IMAGE_BYTES = 260 * 1_000_000;
const MAX_BUILD_MS = 900_000;
const READY_MS = 90_000;
/** Within the longest stop_grace_period of the compose file, that of the gateway, all containers have stopped. */
const STOP_MS = 72_000;

jest.setTimeout(180_000);

let engine: Engine;
let env: Record<string, string>;
let ports: number[];
let dev: { api: string; app: string; apiKey: string };
const devices: MqttDevice[] = [];

beforeAll(async () => {
  engine = await createEngine();
  const secrets = join(engine.folder, 'secrets');
  execFileSync(process.execPath, [join(ROOT, 'deploy/image/create-secrets.mjs'), secrets]);
  ports = await Promise.all([1, 2, 3, 4, 5].map(freePort));
  const [api, mqtt, mqtts, ws, console] = ports.map(String);
  env = {
    ...{ CARILLON_SECRETS: secrets, CARILLON_VERSION: 'test' },
    ...{ API_PORT: api, MQTT_PORT: mqtt, MQTTS_PORT: mqtts, MQTT_WS_PORT: ws },
    ...{ CONSOLE_PORT: console, CONSOLE_URL: `http://127.0.0.1:${console}` },
  } as Record<string, string>;
  await ensureMosquitto();
  await buildDataServers(engine);
  await buildProxy(engine);
  for (const target of [...SERVICES, 'cli', 'sandbox']) {
    await engine.build(target, `carillon/${target}:test`, ['--layers']);
  }
}, MAX_BUILD_MS);

afterAll(async () => {
  for (const device of devices) await device.disconnect();
  await engine?.close();
});

const compose = (...args: string[]) => engine.compose(env, '-p', PROJECT, ...args);
const nameOf = (service: string) => `${PROJECT}_${service}_1`;

async function carillon(...args: string[]): Promise<Record<string, string>> {
  const run = ['--profile', 'tools', 'run', '--rm', '--no-deps', '-T', 'carillon'];
  const text = await compose(...run, '--json', ...args);
  return JSON.parse(text.slice(text.indexOf('{')));
}

function untilReady(): Promise<true> {
  const check = ['/usr/local/bin/node', 'deploy/image/healthcheck.mjs', '/readyz'];
  const areReady = async () => {
    for (const service of SERVICES) await engine.podman('exec', nameOf(service), ...check);
    return true;
  };
  return until(areReady, { timeoutMs: READY_MS, everyMs: 500, what: 'all services ready' });
}

async function newDevice(): Promise<MqttDevice> {
  const credentials = await registerDevice(dev);
  const device = createMqttDevice({ url: `mqtt://127.0.0.1:${ports[1]}`, ...credentials });
  devices.push(device);
  return device;
}

async function push(to: string[], message: string): Promise<void> {
  const body = { to, data: { message }, time_to_live: 3_600 };
  const response = await callApi(dev as never, 'POST', '/push', body);
  expect(response).toMatchObject({ status: 200 });
}

/** Sends to a device with a connection and to one that connects later. */
async function serveBoth(online: MqttDevice, message: string): Promise<void> {
  const offline = await newDevice();
  await push([online.token, offline.token], message);
  const hasIt = ({ arrivals }: MqttDevice) => arrivals.some((one) => one.payload.includes(message));
  await until(() => hasIt(online), { timeoutMs: 30_000, what: `${message} at the online device` });
  await offline.connect();
  await until(() => hasIt(offline), { timeoutMs: 30_000, what: `${message} from the inbox` });
  await offline.disconnect();
}

test('an online and an offline device are served', async () => {
  await compose('up', '-d', '--no-deps');
  await untilReady();
  const account = await carillon('account', 'create', 'Test', '--plan', 'pro');
  const app = await carillon('app', 'create', 'Test', '--account', account.id ?? '');
  dev = {
    api: `http://127.0.0.1:${ports[0]}`,
    app: app.id ?? '',
    apiKey: app.apiKey ?? '',
  };
  const online = await newDevice();
  await online.connect();
  await serveBoth(online, 'first');
});

test('migrate has run once, whenever MongoDB was ready', async () => {
  const format = '{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}';
  const state = await engine.podman('inspect', '--format', format, nameOf('migrate'));
  const log = await engine.podman('logs', nameOf('migrate'));
  expect({ state: state.trim(), log }).toEqual({
    state: 'exited 0 0',
    log: expect.stringContaining('The database is up to date.'),
  });
});

test('the console shows its pages, and a link of the command line creates the first operator', async () => {
  const base = env.CONSOLE_URL ?? '';
  const page = await fetch(base);
  expect(page.status).toBe(200);
  const [, script = ''] = /<script type="module"[^>]* src="([^"]+)"/.exec(await page.text()) ?? [];
  expect((await fetch(new URL(script, base))).status).toBe(200);
  const { link = '' } = await carillon('operator', 'set-up');
  expect(link).toContain(`${base}/setup#token=`);
  const response = await fetch(`${base}/api/setup`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: base },
    body: JSON.stringify({
      ...{ token: link.split('=').at(-1), name: 'Ada', password: 'a long enough password' },
    }),
  });
  expect(await response.json()).toMatchObject({ operator: { name: 'Ada', role: 'owner' } });
  expect(await carillon('operator', 'set-up')).toEqual({});
});

test('every container is without root, capabilities, a writable root, and within its memory', async () => {
  for (const service of CONTAINERS) {
    const pid = await readPid(engine, nameOf(service));
    const uids = Array(4).fill(SERVICES.includes(service) ? 65_532 : 999);
    expect({ service, ...readRights(pid) }).toMatchObject({ service, uids, ...NO_RIGHTS });
    const { limit, used } = readMemory(pid);
    expect(limit).toBeLessThanOrEqual(1_536 * 1_048_576);
    expect(used).toBeLessThan(limit);
  }
});

test('a killed container is restarted, and devices are served again', async () => {
  for (const service of CONTAINERS) {
    // 0 while it restarts, for it needs one that was killed before: a signal to 0 would end this process too.
    const killed = await until(async () => (await readPid(engine, nameOf(service))) || undefined);
    process.kill(killed, 'SIGKILL');
    const isBack = async () => ![killed, 0].includes(await readPid(engine, nameOf(service)));
    await until(isBack, { timeoutMs: 30_000, everyMs: 250, what: `${service} is back` });
  }
  await untilReady();
  const online = await newDevice();
  await until(() => online.connect().then(() => true), { timeoutMs: 30_000, everyMs: 500 });
  await serveBoth(online, 'second');
});

test('no secret is in an image, a container’s settings or a log', async () => {
  const folder = env.CARILLON_SECRETS ?? '';
  const keys = ['api-key-pepper', 'device-auth-keys', 'credential-keys'].map(
    (name) => readFileSync(join(folder, name), 'utf8').trim().split(':').at(-1) ?? '',
  );
  const names = [...CONTAINERS, 'migrate'].map(nameOf);
  const images = [...SERVICES, 'cli'].map((name) => `carillon/${name}:test`);
  const logs = await Promise.all(names.map((name) => engine.podman('logs', name)));
  const texts = [
    await engine.podman('inspect', ...names),
    await engine.podman('image', 'inspect', ...images),
    ...logs,
  ];
  // The search would find nothing in texts that are empty.
  expect(texts.join('')).toContain('ready');
  expect(readdirSync(folder).length).toBeGreaterThan(4);
  for (const key of keys) {
    expect(key).toMatch(/^[0-9a-f]{64}$/);
    expect(texts.filter((text) => text.includes(key))).toEqual([]);
  }
});

test('an image is small, names its version, and has no shell and no package manager', async () => {
  const programs = ['/bin/sh', '/usr/bin/apt-get', '/usr/local/bin/npm', '/usr/local/bin/pnpm'];
  const script = `console.log(JSON.stringify(${JSON.stringify(programs)}.filter(require('fs').existsSync)))`;
  for (const name of [...SERVICES, 'cli', 'sandbox']) {
    const image = `carillon/${name}:test`;
    const [facts] = JSON.parse(await engine.podman('image', 'inspect', image)) as [
      { Size: number; Labels: Record<string, string>; User: string },
    ];
    process.stdout.write(`carillon/${name}: ${Math.round(facts.Size / 1_000_000)} MB\n`);
    expect(facts.Size).toBeLessThanOrEqual(MAX_IMAGE_BYTES);
    expect(facts.User).toBe('65532:65532');
    expect(facts.Labels).toMatchObject({
      'org.opencontainers.image.version': 'test',
      'org.opencontainers.image.revision': 'unknown',
    });
    expect([name, JSON.parse(await runNode(name, script))]).toEqual([name, []]);
  }
});

test('an image has JavaScript only: Node needs 12 MB in each process to strip types', async () => {
  const script = `
    const { globSync } = require('fs');
    const count = (kind) => globSync('{packages,services}/*/src/**/*.' + kind, { cwd: '/app' }).length;
    console.log(JSON.stringify([count('ts'), count('js') > 50]));`;
  for (const name of [...SERVICES, 'cli', 'sandbox'])
    expect([name, JSON.parse(await runNode(name, script))]).toEqual([name, [0, true]]);
});

/** Runs a script in an image, within 256 MB. */
function runNode(image: string, script: string): Promise<string> {
  const limits = ['--memory', '256m', '--network', 'none', '--read-only', '--cap-drop', 'all'];
  const node = ['--entrypoint', '/usr/local/bin/node', `carillon/${image}:test`, '-e', script];
  return engine.podman('run', '--rm', ...limits, ...node);
}

test('Node’s heap stays below the container’s memory', async () => {
  // Garbage of 2 GB beside 100 MB that stay: with the machine's limits V8 would collect too late.
  const script = `
    const kept = Array.from({ length: 100 }, () => Array.from({ length: 131072 }, (_, i) => i + 0.5));
    for (let i = 0; i < 2000; i += 1) kept[i % 100] = Array.from({ length: 131072 }, (_, j) => j + i + 0.5);
    console.log(require('v8').getHeapStatistics().heap_size_limit / 1048576, kept.length);`;
  const [limit, kept] = (await runNode('api', script)).trim().split(' ').map(Number);
  expect(limit).toBeGreaterThan(128);
  expect(limit).toBeLessThan(200);
  expect(kept).toBe(100);
});

test('the stack stops within its deadline and leaves nothing', async () => {
  for (const device of devices) await device.disconnect();
  const startedAt = performance.now();
  await compose('down', '--volumes');
  expect(performance.now() - startedAt).toBeLessThan(STOP_MS);
  expect(await engine.podman('ps', '--all', '--quiet')).toBe('');
});

const PAGE = 'docs/run/deploy-with-compose.md';
const [, ...FIRST] = listCommands(codeBlock(PAGE, 'From clone to a push', 1));
const [SETTINGS = '', ...WITH_TLS] = listCommands(codeBlock(PAGE, 'With TLS'));
/** Waits until a push arrives, so it is run after the others. */
const RECEIVE = WITH_TLS.pop() ?? '';
const RELOAD = codeBlock(PAGE, 'With TLS', 1);
const CREATE_SECRETS = FIRST.find((one) => one.includes('create-secrets')) ?? '';
const SET_UP = FIRST.find((one) => one.endsWith('operator set-up')) ?? '';
let user: NewUser;

const curl = (...args: string[]) =>
  user.run(['curl', '-sS', '--cacert', 'secrets/tls/ca.pem', ...args].join(' '));

async function areAllDelivered(): Promise<boolean> {
  const url = 'https://push.example.com/pushes/<push id>?api_key=<key>';
  const { push } = JSON.parse(await curl(`'${url}'`));
  return push.pending_devices.length === 0;
}

test(
  'a new user, by the page’s commands alone, finds all parts healthy, sends a push and opens the console',
  async () => {
    // The page's first command builds them, from a registry's image.
    for (const name of [...SERVICES, 'cli'])
      await engine.podman('tag', `carillon/${name}:test`, `carillon/${name}:0.1.0`);
    user = await createNewUser(engine, codeBlock(PAGE, 'From clone to a push'));
    for (const command of FIRST) await user.run(command);
    expect(user.lookUp('push id')).toMatch(/^[0-9a-f]{24}$/);
    expect(user.lookUp('link')).toContain(`http://127.0.0.1:${user.ports.CONSOLE_PORT}/setup#`);
    expect((await fetch(user.lookUp('link'))).status).toBe(200);
  },
  READY_MS * 2,
);

test(
  'the page’s push over TLS is delivered to a device, over MQTT with TLS and over WebSocket',
  async () => {
    await user.run(SETTINGS.replace('18883', String(await freePort())));
    for (const command of WITH_TLS) await user.run(command);
    const { PROXY_MQTTS_PORT: mqtts, PROXY_HTTPS_PORT: https } = user.ports;
    const receive = RECEIVE.replace('push.example.com -p 8883', `127.0.0.1 -p ${mqtts}`);
    // One of them is of the test before.
    for (let n = 0; n < 2; n += 1) expect(await user.run(receive)).toBe('{"message":"Hello"}\n');
    await until(areAllDelivered);

    await user.run(WITH_TLS.at(-1) ?? '');
    const ca = readFileSync(join(user.folder, 'secrets/tls/ca.pem'), 'utf8');
    const credentials = { token: user.lookUp('device token'), auth: user.lookUp('auth') };
    const device = createMqttDevice({ url: `wss://127.0.0.1:${https}`, ca, ...credentials });
    devices.push(device);
    await device.connect();
    await until(areAllDelivered);
    expect(device.arrivals).toHaveLength(1);
    await device.disconnect();
  },
  READY_MS * 2,
);

test('the console’s link opens over TLS', async () => {
  await user.run(SET_UP);
  const link = user.lookUp('link');
  const origin = 'https://console.push.example.com';
  expect(link).toContain(`${origin}/setup#`);
  expect(await curl('-o /dev/null -w %{http_code}', `'${link}'`)).toBe('200');
  const body = JSON.stringify({
    ...{ token: link.split('=').at(-1), name: 'Ada', password: 'a long enough password' },
  });
  const headers = ['content-type: application/json', `origin: ${origin}`];
  const sent = [...headers.map((one) => `-H '${one}'`), `-d '${body}'`, `${origin}/api/setup`];
  expect(await curl('-i', ...sent)).toMatch(/set-cookie: __Host-carillon-[\s\S]*"role":"owner"/i);
});

/** Registers devices of an app through the proxy, in a container of its own. @returns the counts by status */
async function registerFrom(apps: readonly (readonly [app: string, count: number])[]) {
  const script = `
    const { Agent, request } = require('node:https');
    const agent = new Agent({ keepAlive: true, maxSockets: 16, servername: 'push.example.com' });
    const register = (appId, n) => new Promise((resolve, reject) => {
      const headers = { host: 'push.example.com', 'content-type': 'application/json',
        'x-forwarded-for': '203.0.113.' + (n % 250) };
      request({ host: 'proxy', port: 8443, path: '/register', method: 'POST', agent, headers })
        .on('response', (response) => response.resume().on('end', () => resolve(response.statusCode)))
        .on('error', reject).end(JSON.stringify({ appId, platform: 'electron' }));
    });
    (async () => {
      const all = [];
      for (const [app, count] of ${JSON.stringify(apps)}) {
        const statuses = await Promise.all(Array.from({ length: count }, (_, n) => register(app, n)));
        all.push(Object.fromEntries(statuses.map((one) => [one, statuses.filter((s) => s === one).length])));
      }
      console.log(JSON.stringify(all));
      agent.destroy();
    })();`;
  const ca = [
    '-v',
    `${user.folder}/secrets/tls/ca.pem:/ca.pem:ro`,
    '-e',
    'NODE_EXTRA_CA_CERTS=/ca.pem',
  ];
  const node = ['--entrypoint', '/usr/local/bin/node', 'carillon/cli:test', '-e', script];
  return JSON.parse(
    await engine.podman('run', '--rm', '--network', 'carillon_edge', ...ca, ...node),
  );
}

test('a client that names other addresses uses up its own limit behind the proxy, and no other’s', async () => {
  const cli = 'docker compose run --rm carillon app';
  const created = await user.run(`${cli} create Full --account <account id>`);
  const [, full = ''] = /App (\w+) created/.exec(created) ?? [];
  await user.run(`${cli} set ${full} --registrations-per-hour 1`);
  const open = JSON.parse(await user.run(`${cli} create Open --account <account id> --json`)).id;
  const limit = LIMITS.registrationsPerAddressHour;
  const attack = [
    [full, limit],
    [open, 10],
  ] as const;
  expect(await registerFrom(attack)).toEqual([{ 200: 1, 429: limit - 1 }, { 429: 10 }]);
  expect(await registerFrom([[open, 10]])).toEqual([{ 200: 10 }]);
});

test('the page’s command gives the proxy another certificate', async () => {
  await user.run(`rm secrets/tls/*; ${CREATE_SECRETS}`);
  await user.run(RELOAD);
  const check = () => curl('-o /dev/null -w %{http_code} https://push.example.com/openapi.json');
  expect(await until(() => check().catch(() => false))).toBe('200');
  await user.run('docker compose down --volumes');
});

test(
  'a second build has the same digest',
  async () => {
    await engine.build('scheduler', 'carillon/again:test', ['--no-cache', '--layers']);
    const idOf = (name: string) =>
      engine.podman('image', 'inspect', '--format', '{{.Id}}', `carillon/${name}:test`);
    expect(await idOf('again')).toBe(await idOf('scheduler'));
  },
  MAX_BUILD_MS,
);

test('hadolint finds no fault in the Dockerfile', async () => {
  expect(await engine.lint()).toBe('');
});
