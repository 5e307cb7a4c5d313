import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WORKER_QUEUES } from '../../packages/queue/src/jobs.ts';
import type { LastProgress } from '../../packages/runtime/src/progress.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { readProgress } from '../support/operators/service-process.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const EVERY_ADDRESS = '0.0.0.0';
const LOOPBACK = '127.0.0.1';
const SHOP = 'https://shop.example';
const DOCTOR_RUNS = 2;
const PIPELINES = 3;
/** Bytes of requests that each of them sends. */
const SENT_BYTES = 156_000;
/** Activities and loops of each service besides its event loop. */
const REPORTED: Record<string, readonly string[]> = {
  api: ['response'],
  'delivery-worker': WORKER_QUEUES.map((queue) => `queue ${queue}`),
  scheduler: ['queue maintenance', 'ticks'],
  'device-gateway': ['presence refresher', 'stream reader', 'lease'],
  dashboard: ['response'],
};

let stack: Stack;
beforeAll(async () => {
  const env = { MQTT_WS_ORIGINS: SHOP };
  stack = await startStack({ host: EVERY_ADDRESS, dashboards: 1, ownMongodb: true, env });
});
afterAll(() => stack?.stop());

const opsOf = (service: string) => findProcess(stack.dev, service, 0).ops ?? '';

/** proc(5): state of a socket, and addresses, hexadecimal in the byte order of the machine. */
const LISTENING = '0A';
const ADDRESSES: Record<string, string> = {
  '0100007F': LOOPBACK,
  '00000000': EVERY_ADDRESS,
  '00000000000000000000000001000000': '::1',
  '00000000000000000000000000000000': '::',
};

/** Lists the addresses of this machine on which something listens at the port of a URL. Reads /proc, so Linux only. */
function addressesOf(url = ''): string[] {
  const found = ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .slice(1)
      .flatMap((line) => {
        const fields = line.trim().split(/\s+/);
        const [address = '', port = ''] = (fields[1] ?? '').split(':');
        const isListening = fields[3] === LISTENING;
        const isWanted = Number.parseInt(port, 16) === Number(new URL(url).port);
        return isListening && isWanted ? [ADDRESSES[address] ?? address] : [];
      }),
  );
  return [...new Set(found)];
}

test('Redis, MongoDB, the sandbox and all ops ports listen on a loopback address, whatever CARILLON_HOST is', async () => {
  const { dev } = stack;
  const credentials = await (await fetch(`${dev.sandbox}/credentials`)).json();
  const { apns, fcm, webPush } = credentials as Record<string, { host: string; port: number }>;
  const ofProviders = [apns, fcm, webPush].map((one) => `https://${one?.host}:${one?.port}`);
  const ops = dev.processes.flatMap((process) => process.ops ?? []);
  expect(ops.length).toBeGreaterThanOrEqual(5);
  for (const url of [dev.redis, dev.mongodb, dev.sandbox, ...ofProviders, ...ops])
    expect([url, addressesOf(url)]).toEqual([url, [LOOPBACK]]);
});

test('the API, the gateway and the console listen on every address', () => {
  const { api, mqtt, mqtts, ws, console } = stack.dev;
  for (const url of [api, mqtt, mqtts, ws, console])
    expect([url, addressesOf(url)]).toEqual([url, [EVERY_ADDRESS]]);
});

/** Sends a request. @returns the response, or that to an upgrade */
async function requestWith(url: string | URL, headers: Record<string, string>) {
  const sent = request(url, { headers, agent: false });
  sent.on('error', () => undefined).end();
  const heads = [once(sent, 'upgrade'), once(sent, 'response')];
  return ((await Promise.race(heads)) as [IncomingMessage])[0];
}

/** Returns the status of a WebSocket handshake of a page. */
async function upgrade(origin: string): Promise<number | undefined> {
  const { socket, statusCode } = await requestWith(stack.dev.ws?.replace('ws:', 'http:') ?? '', {
    ...{ connection: 'Upgrade', upgrade: 'websocket', origin },
    'sec-websocket-version': '13',
    'sec-websocket-key': Buffer.alloc(16).toString('base64'),
    'sec-websocket-protocol': 'mqtt',
  });
  socket.destroy();
  return statusCode;
}

test('npm start passes on MQTT_WS_ORIGINS: pages of these origins may connect, and of no other', async () => {
  expect(await upgrade(SHOP)).toBe(101);
  expect(await upgrade('https://evil.example')).toBe(403);
});

test('every ops port refuses names that are not its own, and responds to probes by address', async () => {
  const served = stack.dev.processes.flatMap(({ ops }) => ops ?? []);
  expect(served.length).toBeGreaterThanOrEqual(5);
  for (const url of served.flatMap((ops) =>
    ['/livez', '/readyz', '/metrics'].map((path) => new URL(path, ops)),
  )) {
    // As a browser whose page's name was pointed at this machine (DNS rebinding).
    const getAs = (host: string) => {
      const named = `${host}:${url.port}`;
      return requestWith(url, { host: named, origin: `http://${named}` });
    };
    const refused = await getAs('attacker.example');
    expect(refused.statusCode).toBe(421);
    expect(Buffer.concat(await refused.toArray()).toString()).not.toContain('carillon_');
    for (const name of ['10.244.3.17', 'localhost']) {
      const { statusCode, socket } = await getAs(name);
      expect(statusCode).toBe(200);
      socket.destroy();
    }
  }
});

test.each(Object.keys(REPORTED))('%s reports all that it does, in both probes', async (service) => {
  for (const [path, verdict] of [
    ['/readyz', 'ready'],
    ['/livez', 'alive'],
  ] as const) {
    const response = await fetch(`${opsOf(service)}${path}`);
    const body = (await response.json()) as { faults: string[]; progress: LastProgress[] };
    expect(response.status).toBe(200);
    expect(Object.keys(body)).toEqual([verdict, 'faults', 'progress']);
    expect(body).toMatchObject({ [verdict]: true, faults: [] });
    const names = body.progress.map(({ name }) => name);
    expect(names.toSorted()).toEqual(['event loop', ...(REPORTED[service] ?? [])].toSorted());
    for (const { secondsAgo, state, ...rest } of body.progress) {
      expect(Object.keys(rest)).toEqual(['name']);
      expect(state).toBe('ok');
      if (secondsAgo !== null) expect(secondsAgo).toBeGreaterThanOrEqual(0);
    }
  }
});

test.each([
  ['api', () => `${stack.dev.api}/topics`],
  ['dashboard', () => `${stack.dev.console}/api/session`],
])('%s reports a response as soon as it has sent one', async (service, urlOf) => {
  await fetch(urlOf());
  const hasResponded = async () =>
    (await readProgress(opsOf(service))).some(
      ({ name, secondsAgo }) => name === 'response' && secondsAgo !== null,
    );
  await until(hasResponded, { what: `a response of ${service}` });
});

describe('carillon doctor', () => {
  type Findings = { check: string; ok: boolean; detail: string }[];

  /** CONNECTs by their result, as the gateway counts them. */
  async function readConnectCounts(): Promise<Record<string, number>> {
    const text = await (await fetch(`${opsOf('device-gateway')}/metrics`)).text();
    const found = text.matchAll(/^carillon_gateway_connects_total{result="([\w-]+)"} (\d+)/gm);
    return Object.fromEntries([...found].map(([, result, count]) => [result, Number(count)]));
  }

  let runs = 0;
  async function runDoctor(env: Record<string, string> = {}) {
    runs += 1;
    const { code, stdout } = await runCarillonHere(stack.home, ['--json', 'doctor'], env);
    const findings = JSON.parse(stdout) as Findings;
    return { code, findings, faults: findings.filter(({ ok }) => !ok) };
  }

  test('finds nothing on a healthy stack, and its probe of MQTT counts as no failed login', async () => {
    for (let n = 0; n < DOCTOR_RUNS; n += 1) {
      // Its checks have timeouts, which may be short for a busy machine.
      const { findings } = await until(async () => {
        const run = await runDoctor();
        return run.code === 0 && run;
      });
      expect(findings.length).toBeGreaterThan(3);
      for (const { check, ok, detail } of findings)
        expect([check, ok, detail]).toEqual([expect.any(String), true, expect.any(String)]);
      expect(findings.map(({ check }) => check)).toContain('mqtt');
    }
    await until(async () => Number((await readConnectCounts())['refused-1']) >= DOCTOR_RUNS);
    const counts = await readConnectCounts();
    expect(counts['refused-1']).toBeLessThanOrEqual(runs);
    expect(counts).not.toHaveProperty('refused-4');
  });

  test('ends with 1 when only the console is unreachable', async () => {
    const { code } = await until(async () => {
      const run = await runDoctor({ CONSOLE_URL: 'http://127.0.0.1:1' });
      return run.faults.map(({ check }) => check).join() === 'console' && run;
    });
    expect(code).toBe(1);
  });

  test('reaches the console inside a network, at another address than that of its links', async () => {
    const addresses = {
      CONSOLE_URL: 'http://127.0.0.1:1',
      CONSOLE_INTERNAL_URL: stack.dev.console ?? '',
    };
    const details = await until(async () => {
      const { code, findings } = await runDoctor(addresses);
      return code === 0 && findings.filter(({ check }) => check.startsWith('console'));
    });
    expect(details.map(({ detail }) => detail)).toEqual(['ready at http://127.0.0.1:1', 'built']);
  });

  test('reports a proxy that the settings do not name, which is one line in the log', async () => {
    const headers = { 'x-forwarded-for': '198.51.100.7' };
    for (let n = 0; n < 50; n += 1)
      await (await fetch(`${stack.dev.api}/openapi.json`, { headers })).text();
    const fault = await until(async () =>
      (await runDoctor()).faults.find(({ check }) => check === 'client addresses'),
    );
    expect(fault.detail).toMatch(/TRUST_PROXY is 0: set TRUST_PROXY to the number of proxies/);
    expect(stack.readLog('api').match(/"proxy":"api-forwarded-header"/g)).toHaveLength(1);
  });
});

describe('connections that pipeline requests and read no response', () => {
  async function openPipeline(url: URL): Promise<Socket> {
    const socket = connect(Number(url.port), url.hostname);
    socket.on('error', () => undefined).pause();
    await once(socket, 'connect');
    const text = `GET ${url.pathname} HTTP/1.1\r\nHost: ${url.host}\r\n\r\n`;
    socket.write(text.repeat(SENT_BYTES / text.length));
    return socket;
  }

  // The path whose response is the largest that needs no key, and its status.
  test.each<[string, () => string, number]>([
    ['the API', () => `${stack.dev.api}/openapi.json`, 200],
    ['the console', () => `${stack.dev.console}/`, 200],
    ['the gateway', () => `${stack.dev.ws?.replace('ws:', 'http:')}/`, 426],
    ['the sandbox', () => `${stack.dev.sandbox}/received`, 200],
    ['the port for operators', () => `${opsOf('api')}/metrics`, 200],
  ])('are closed by %s, which serves others', async (_name, urlOf, status) => {
    const url = new URL(urlOf());
    const attackers = await Promise.all(Array.from({ length: PIPELINES }, () => openPipeline(url)));
    for (const socket of attackers) {
      // A client that reads nothing learns of the end of its connection when it writes.
      const isClosed = () => socket.destroyed || void socket.write('\r\n');
      await until(isClosed, { what: 'a closed connection' });
    }
    const response = await fetch(url);
    await response.arrayBuffer();
    expect(response.status).toBe(status);
    expect(stack.output()).not.toContain(' ended (');
  });
});
