import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { until } from '../../../test/support/until.ts';
import { carillon, type Ended } from './carillon.ts';
import { type Edge, PACKETS, startEdge } from './edge-under-test.ts';

let edge: Edge;
let stop: AbortController;
let lines: string[];

beforeEach(async () => {
  edge = await startEdge();
  stop = new AbortController();
  lines = [];
});

afterEach(() => edge.stop());

function simulate(...args: string[]): Promise<Ended> {
  return carillon(['simulate', '--json', '--app', 'a1', ...args], {
    env: edge.env,
    signal: stop.signal,
    onOut: (text) => lines.push(text.trimEnd()),
  });
}

function registrations(): number {
  return edge.requests.filter(({ path }) => path === '/register').length;
}

function stateFile(devices: object[], app = 'a1'): string {
  const path = join(temporaryFolder(), 'state.json');
  writeFileSync(path, JSON.stringify({ app, platform: 'electron', devices }));
  return path;
}

describe('simulated devices', () => {
  test('register, connect, and end with DISCONNECT when stopped', async () => {
    const ended = simulate('--devices', '60', '--platform', 'python');
    await until(() => lines.length === 60);
    stop.abort();
    expect(await ended).toMatchObject({ code: 0, err: '' });
    expect(edge.requests[0]?.body).toBe('{"appId":"a1","platform":"python"}');
    await until(() => edge.packets.filter((type) => type === PACKETS.DISCONNECT).length === 60);
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(Array(60).fill('connected'));
  });

  test('print a push as it came, and send its receipt', async () => {
    const ended = simulate();
    await until(() => lines.length === 1);
    edge.publish('0123', '{"n":12345678901234567890,\n"x":1.0}');
    await until(() => edge.packets.includes(PACKETS.PUBACK));
    stop.abort();
    await ended;
    const start =
      '{"event":"push","token":"t1","id":"0123","payload":{"n":12345678901234567890, "x":1.0},';
    expect(lines[1]?.startsWith(start)).toBe(true);
    expect(JSON.parse(lines[1] ?? '')).toHaveProperty('receivedAt');
  });

  test('stop by themselves after the time given', async () => {
    expect(await simulate('--seconds', '1')).toMatchObject({ code: 0 });
  });

  test('come back after CONNACK 3, which is an outage', async () => {
    edge.connacks = [3];
    const ended = simulate();
    await until(() => lines.length === 1);
    stop.abort();
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('give up after CONNACK 5, which is a refusal', async () => {
    edge.connacks = [5];
    const { code, err } = await simulate();
    expect(code).toBe(1);
    expect(err).toContain('refuses the device t1');
  });

  test('end with 3 when no gateway is there', async () => {
    edge.env.CARILLON_MQTT = 'mqtt://127.0.0.1:1';
    expect(await simulate('--devices', '3')).toMatchObject({ code: 3 });
  });

  test('end with 1 and the answer when the API refuses them', async () => {
    edge.statuses['/register'] = 400;
    const { code, out } = await simulate();
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({ code: 'CODE', error: 'No.' });
  });

  test('wait when the API asks for patience', async () => {
    edge.statuses['/register'] = [429, 429];
    expect(await simulate('--seconds', '1')).toMatchObject({ code: 0 });
    expect(registrations()).toBe(3);
  });
});

describe('credentials kept in a file', () => {
  test('are used again, and only new devices register', async () => {
    const path = stateFile([{ token: 'old', auth: 'b' }]);
    await simulate('--devices', '2', '--state', path, '--seconds', '1');
    expect(registrations()).toBe(1);
    expect(lines.join()).toContain('"token":"old"');
    expect(JSON.parse(readFileSync(path, 'utf8')).devices).toHaveLength(2);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test.each([
    ['are replaced when the API refuses them', 400, 1],
    ['survive an outage of the API', 503, 0],
    ['survive a limit of the API', 429, 0],
  ])('%s', async (_, status, registered) => {
    edge.statuses['/devices/auth'] = status;
    await simulate('--state', stateFile([{ token: 'old', auth: 'b' }]), '--seconds', '1');
    expect(registrations()).toBe(registered);
  });

  test("are not used for another app's devices", async () => {
    await simulate('--state', stateFile([{ token: 'old', auth: 'b' }], 'a2'), '--seconds', '1');
    expect(registrations()).toBe(1);
  });

  test('are never overwritten where the file is something else', async () => {
    const path = join(temporaryFolder(), 'notes');
    writeFileSync(path, 'my notes');
    expect(await simulate('--state', path)).toMatchObject({ code: 1 });
    expect(readFileSync(path, 'utf8')).toBe('my notes');
  });
});

describe('push send', () => {
  const send = (...args: string[]) => carillon(['push', 'send', ...args], { env: edge.env });

  test('sends the payload as it was written', async () => {
    const data = '{"n": 12345678901234567890, "x": 1.0}';
    await send('--to', 'a,b', '--to', 'c', '--topic', 'news', '--ttl', '0', '--data', data);
    const to = '["a","b","c","/topics/news"]';
    expect(edge.requests).toEqual([
      { path: '/push', body: `{"to":${to},"time_to_live":0,"data":${data}}` },
    ]);
  });

  test('gives the answer of a refusal', async () => {
    edge.statuses['/push'] = 400;
    const { code, out, err } = await send('--to', 'a', '--data', '{}', '--json');
    expect({ code, out }).toEqual({ code: 1, out: '{"code":"CODE","error":"No."}\n' });
    expect(err).toBe('The API refused: No. (CODE)\n');
  });
});
