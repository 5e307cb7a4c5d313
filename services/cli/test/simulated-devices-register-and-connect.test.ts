import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { connect } from 'node:http2';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { until } from '../../../test/support/until.ts';
import { createSandbox, type Sandbox } from '../../sandbox/src/sandbox.ts';
import { type CliResult, runCarillon } from './run-carillon.ts';

/** Types of control packets (MQTT 3.1.1, table 2.1). */
const PACKETS = { CONNECT: 1, PUBACK: 4, DISCONNECT: 14 };
const ANY_PORT = { host: '127.0.0.1', port: 0 };

let edge: Awaited<ReturnType<typeof startScriptedEdge>>;
let stop: AbortController;
let lines: string[];

beforeEach(async () => {
  edge = await startScriptedEdge();
  stop = new AbortController();
  lines = [];
});

afterEach(() => edge.stop());

function simulate(...args: string[]): Promise<CliResult> {
  return runCarillon(['simulate', '--json', '--app', 'a1', ...args], {
    env: edge.env,
    signal: stop.signal,
    onOut: (text) => lines.push(...text.trimEnd().split('\n')),
  });
}

const untilConnected = (devices = 1) =>
  until(() => lines.filter((line) => line.includes('"connected"')).length === devices);

/** Simulates `devices` devices, and stops them once all are connected. */
async function simulateUntilConnected(devices: number, ...args: string[]): Promise<CliResult> {
  const result = simulate('--devices', `${devices}`, ...args);
  await untilConnected(devices).finally(() => stop.abort());
  return result;
}

function countRegistrations(): number {
  return edge.requests.filter(({ path }) => path === '/register').length;
}

function writeStateFile(devices: object[], app = 'a1'): string {
  const path = join(createTemporaryFolder(), 'state.json');
  writeFileSync(path, JSON.stringify({ app, platform: 'electron', devices }));
  return path;
}

describe('simulated devices', () => {
  test('register, connect, and disconnect with DISCONNECT when stopped', async () => {
    const result = await simulateUntilConnected(60, '--platform', 'python');
    expect(result).toMatchObject({ code: 0, err: '' });
    expect(edge.requests[0]?.body).toBe('{"appId":"a1","platform":"python"}');
    await until(() => edge.packets.filter((type) => type === PACKETS.DISCONNECT).length === 60);
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(Array(60).fill('connected'));
  });

  test('print the payload of a push unchanged, and acknowledge the push', async () => {
    const result = simulate();
    await untilConnected();
    edge.publish('0123', '{"n":12345678901234567890,\n"x":1.0}');
    await until(() => edge.packets.includes(PACKETS.PUBACK));
    stop.abort();
    await result;
    const start =
      '{"event":"push","token":"t1","id":"0123","payload":{"n":12345678901234567890, "x":1.0},';
    expect(lines[1]?.startsWith(start)).toBe(true);
    expect(JSON.parse(lines[1] ?? '')).toHaveProperty('receivedAt');
  });

  test('stop after --seconds', async () => {
    expect(await simulate('--seconds', '1')).toMatchObject({ code: 0 });
  });

  test('reconnect after CONNACK 3, which is temporary', async () => {
    edge.connacks = [3];
    expect(await simulateUntilConnected(1)).toMatchObject({ code: 0 });
  });

  test('stop after CONNACK 5, which is permanent', async () => {
    edge.connacks = [5];
    const { code, err } = await simulate();
    expect(code).toBe(1);
    expect(err).toContain('rejects the device t1');
  });

  test('exit with 3 when the gateway is unreachable', async () => {
    edge.env.CARILLON_MQTT = 'mqtt://127.0.0.1:1';
    expect(await simulate('--devices', '3')).toMatchObject({ code: 3 });
  });

  test('exit with 1 and print the response when the API rejects them', async () => {
    edge.statuses['/register'] = 400;
    const { code, out } = await simulate();
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({ code: 'CODE', error: 'No.' });
  });

  test.each([429, 503])('retry when the API returns %i, and print one message', async (status) => {
    edge.statuses['/register'] = Array(4).fill(status);
    const { code, err } = await simulateUntilConnected(2);
    expect(code).toBe(0);
    expect(countRegistrations()).toBe(6);
    expect(err.trim().split('\n')).toEqual([expect.stringContaining(`(${status}`)]);
  });

  test('wait for the Retry-After of the API, and can be stopped meanwhile', async () => {
    edge.statuses['/register'] = 429;
    edge.retryAfter = 3_600;
    const result = simulate();
    await until(() => countRegistrations() === 1);
    stop.abort();
    expect(await result).toMatchObject({ code: 0, err: expect.stringContaining('3600 s') });
    expect(countRegistrations()).toBe(1);
  });
});

describe('credentials in a state file', () => {
  test('are used again, so that only new devices register', async () => {
    const path = writeStateFile([{ token: 'old', auth: 'b' }]);
    await simulateUntilConnected(2, '--state', path);
    expect(countRegistrations()).toBe(1);
    expect(lines.join()).toContain('"token":"old"');
    expect(JSON.parse(readFileSync(path, 'utf8')).devices).toHaveLength(2);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test.each([
    ['are replaced when the API rejects them', 400, 1],
    ['are kept during an outage of the API', 503, 0],
    ['are kept when the API is rate-limited', 429, 0],
  ])('%s', async (_, status, registered) => {
    edge.statuses['/devices/auth'] = status;
    await simulateUntilConnected(1, '--state', writeStateFile([{ token: 'old', auth: 'b' }]));
    expect(countRegistrations()).toBe(registered);
  });

  test('are not used for the devices of another app', async () => {
    await simulateUntilConnected(1, '--state', writeStateFile([{ token: 'old', auth: 'b' }], 'a2'));
    expect(countRegistrations()).toBe(1);
  });

  test('never overwrite a file with other content', async () => {
    const path = join(createTemporaryFolder(), 'notes');
    writeFileSync(path, 'my notes');
    expect(await simulate('--state', path)).toMatchObject({ code: 1 });
    expect(readFileSync(path, 'utf8')).toBe('my notes');
  });
});

describe('simulated devices of providers', () => {
  let sandbox: Sandbox;
  beforeAll(async () => {
    const files = createTemporaryFolder();
    const listen = { control: ANY_PORT, apns: ANY_PORT, fcm: ANY_PORT, webPush: ANY_PORT };
    sandbox = await createSandbox({ ...listen, files });
  });
  beforeEach(() => {
    edge.env = { ...edge.env, CARILLON_SANDBOX: sandbox.control };
  });
  afterAll(() => sandbox.stop());

  /** Starts a simulation. Returns its result, and what the device has registered with. */
  async function register(...args: string[]) {
    const result = simulate(...args);
    await untilConnected();
    const registered = JSON.parse(edge.requests[0]?.body ?? '{}') as Record<string, unknown>;
    return { result, registered };
  }

  /** Sends a request to the sandbox, which is set to accept every request: the tests check only the payload. */
  async function send(channel: 'apns' | 'fcm' | 'web-push', path: string, body: string) {
    await fetch(`${sandbox.control}/scripts/${channel}/*`, {
      method: 'PUT',
      body: JSON.stringify({ answers: [{ status: 200 }] }),
    });
    const { host, port } = sandbox.credentials[channel === 'web-push' ? 'webPush' : channel];
    const session = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
    const head = { ':method': 'POST', ':path': path, 'x-carillon-push': 'p1' };
    const stream = session.request(head);
    stream.end(body);
    await new Promise((resolve) => stream.resume().once('close', resolve));
    await new Promise((resolve) => session.close(() => resolve(undefined)));
  }

  async function expectPush(result: Promise<CliResult>, text: string): Promise<void> {
    expect(await until(() => lines.find((line) => line.includes('"push"')))).toContain(text);
    stop.abort();
    expect(await result).toMatchObject({ code: 0 });
  }

  test('on ios register with an APNs token and print their pushes', async () => {
    const { result, registered } = await register('--platform', 'ios');
    const { pushToken, ...rest } = registered;
    const app = { pushEnvironment: 'development', pushBundle: 'com.example.carillon' };
    expect(rest).toMatchObject({ appId: 'a1', platform: 'ios', ...app });
    expect(pushToken).toMatch(/^[0-9a-f]{64}$/);
    const payload = '{"n":12345678901234567890,"_pushyId":"p1"}';
    await send('apns', `/3/device/${pushToken}`, payload);
    await expectPush(result, `{"event":"push","token":"t1","id":"p1","payload":${payload},`);
  });

  test('on android with --fcm connect over MQTT and have an FCM token', async () => {
    const { result, registered } = await register('--platform', 'android', '--fcm');
    const data = { payload: '{"n":1.0}', _pushyId: 'p1' };
    const body = JSON.stringify({ message: { token: registered.fcmToken, data } });
    await send('fcm', '/v1/projects/any/messages:send', body);
    await expectPush(result, '"id":"p1","payload":{"n":1.0},');
  });

  test('on web register with a subscription', async () => {
    const { result, registered } = await register('--platform', 'web');
    const { endpoint } = registered.subscription as { endpoint: string };
    await send('web-push', new URL(endpoint).pathname, '');
    await expectPush(result, '"id":"p1","payload":null,');
  });

  test('reject --fcm on other platforms than android', async () => {
    expect(await simulate('--platform', 'ios', '--fcm')).toMatchObject({ code: 2 });
  });
});

describe('push send', () => {
  const send = (...args: string[]) => runCarillon(['push', 'send', ...args], { env: edge.env });

  test('sends the payload unchanged', async () => {
    const data = '{"n": 12345678901234567890, "x": 1.0}';
    await send('--to', 'a,b', '--to', 'c', '--topic', 'news', '--ttl', '0', '--data', data);
    const to = '["a","b","c","/topics/news"]';
    expect(edge.requests).toEqual([
      { path: '/push', body: `{"to":${to},"time_to_live":0,"data":${data}}` },
    ]);
  });

  test('prints the response of a rejected request', async () => {
    edge.statuses['/push'] = 400;
    const { code, out, err } = await send('--to', 'a', '--data', '{}', '--json');
    expect({ code, out }).toEqual({ code: 1, out: '{"code":"CODE","error":"No."}\n' });
    expect(err).toBe('The API returned an error: No. (CODE)\n');
  });
});

/** Starts a scripted API and MQTT gateway on free ports. */
async function startScriptedEdge() {
  const connections = new Set<Socket>();
  let registeredCount = 0;
  const http = createHttpServer(async (request, response) => {
    const path = request.url ?? '';
    script.requests.push({ path, body: await text(request) });
    const scripted = script.statuses[path];
    const status = (Array.isArray(scripted) ? scripted.shift() : scripted) ?? 200;
    const device = { token: `t${++registeredCount}`, auth: 'a' };
    const body = status === 200 ? device : { code: 'CODE', error: 'No.' };
    response
      .writeHead(status, { 'retry-after': String(script.retryAfter) })
      .end(JSON.stringify(body));
  });
  const gateway = createServer((connection) => {
    connections.add(
      connection.on('error', () => undefined).on('close', () => connections.delete(connection)),
    );
    connection.on('data', (bytes) => {
      const type = (bytes[0] ?? 0) >> 4;
      script.packets.push(type);
      if (type === PACKETS.CONNECT)
        connection.write(Buffer.from([0x20, 2, 0, script.connacks.shift() ?? 0]));
    });
  });
  const env: NodeJS.ProcessEnv = {
    CARILLON_API: `http://127.0.0.1:${await listen(http)}`,
    CARILLON_MQTT: `mqtt://127.0.0.1:${await listen(gateway)}`,
    CARILLON_API_KEY: 'k',
  };
  const script = {
    env,
    /** Requests that the API received, in order. */
    requests: [] as { path: string; body: string }[],
    /** HTTP status per path, or the statuses of its next requests; 200 when absent. */
    statuses: {} as Record<string, number | number[]>,
    /** Retry-After of each response in seconds. */
    retryAfter: 0,
    /** CONNACK return codes of the next connects; 0 for later ones. */
    connacks: [] as number[],
    /** Types of the control packets (MQTT 3.1.1, table 2.1) that devices sent. */
    packets: [] as number[],
  };
  return Object.assign(script, {
    /** Publishes to every connected device. */
    publish: (topic: string, payload: string): void => {
      for (const connection of connections) connection.write(publishPacket(topic, payload));
    },
    stop: async (): Promise<void> => {
      for (const connection of connections) connection.destroy();
      http.closeAllConnections();
      await Promise.all([http, gateway].map((server) => once(server.close(), 'close')));
    },
  });
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
