import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { until } from '../../../test/support/until.ts';
import { type CliResult, runCarillon } from './run-carillon.ts';
import { PACKETS, type ScriptedEdge, startScriptedEdge } from './scripted-edge.ts';

let edge: ScriptedEdge;
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
    onOut: (text) => lines.push(text.trimEnd()),
  });
}

/** Simulates `devices` devices, and stops them once all are connected. */
async function simulateUntilConnected(devices: number, ...args: string[]): Promise<CliResult> {
  const result = simulate('--devices', `${devices}`, ...args);
  try {
    await until(() => lines.filter((line) => line.includes('"connected"')).length === devices);
  } finally {
    stop.abort();
  }
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
    const result = simulate('--devices', '60', '--platform', 'python');
    await until(() => lines.length === 60);
    stop.abort();
    expect(await result).toMatchObject({ code: 0, err: '' });
    expect(edge.requests[0]?.body).toBe('{"appId":"a1","platform":"python"}');
    await until(() => edge.packets.filter((type) => type === PACKETS.DISCONNECT).length === 60);
    expect(lines.map((line) => JSON.parse(line).event)).toEqual(Array(60).fill('connected'));
  });

  test('print the payload of a push unchanged, and acknowledge the push', async () => {
    const result = simulate();
    await until(() => lines.length === 1);
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
    const result = simulate();
    await until(() => lines.length === 1);
    stop.abort();
    expect(await result).toMatchObject({ code: 0 });
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
