import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTestHome, type TestHome } from '../support/first-run/test-home.ts';
import { freePortBase } from '../support/stack/port-block.ts';
import { until } from '../support/until.ts';

const API_OFFSET = 0;
const REDIS_OFFSET = 5;
const OPS_OFFSET = 20;

let testHome: TestHome;
let base: number;
let servers: Server[];
beforeEach(async () => {
  testHome = await createTestHome();
  base = Number(testHome.env.CARILLON_PORT_BASE);
  servers = [];
});
afterEach(async () => {
  for (const server of servers) server.close();
  await testHome.remove();
});

describe('a taken port', () => {
  test.each([
    ['the API', API_OFFSET],
    ['Redis', REDIS_OFFSET],
    ['an ops port', OPS_OFFSET],
  ])('of %s is named with the two remedies', async (_whose, offset) => {
    await listen(base + offset);
    const said = await expectStartError({});
    expect(said).toContain(String(base + offset));
    expect(said).toContain('CARILLON_PORT_BASE');
    expect(said).toContain('CARILLON_HOST');
  });
});

describe('an invalid value in the environment', () => {
  test.each([
    ['CARILLON_PORT_BASE', 'x'],
    ['CARILLON_PORT_BASE', '0'],
    ['CARILLON_PORT_BASE', '65535'],
    ['CARILLON_PORT_BASE', '-4000'],
    ['CARILLON_HOST', 'example.invalid'],
    ['CARILLON_HOST', '192.0.2.1'],
    ['CARILLON_APIS', 'two'],
    ['CARILLON_DELIVERY_WORKERS', '-1'],
    ['CARILLON_SCHEDULERS', '1.5'],
    ['CARILLON_DEVICE_GATEWAYS', '1000'],
    ['CARILLON_DEMO', 'yes'],
    ['CARILLON_ADDRESS_LIMITS', 'maybe'],
    ['CARILLON_RETENTION_SECONDS', '2 days'],
    ['REDIS_URL', 'http://127.0.0.1:6379'],
    ['MONGODB_URI', '127.0.0.1:27017'],
  ])('%s=%s is named', async (name, value) => {
    expect(await expectStartError({ [name]: value })).toContain(name);
  });

  test('does not prevent that others are named too', async () => {
    const start = testHome.start({ CARILLON_APIS: 'x', CARILLON_DEMO: 'x' });
    expect(await start.exit()).not.toBe(0);
    expect(start.stderr()).toMatch(/CARILLON_APIS[\s\S]*CARILLON_DEMO/);
  });
});

describe('a folder that can not be used', () => {
  test('because a file has its name', async () => {
    await writeFile(testHome.home, '');
    expect(await expectStartError({})).toContain('CARILLON_HOME');
  });

  test('because a file has the name of its parent', async () => {
    await writeFile(testHome.home, '');
    const said = await expectStartError({ CARILLON_HOME: join(testHome.home, 'in-it') });
    expect(said).toContain('CARILLON_HOME');
  });

  test.each([
    ['cut off', '{"apiKeyPepper":"00'],
    ['of another kind', '[]'],
    ['without a secret', '{"deviceAuthKeys":"1:00"}'],
    ['empty', ''],
  ])('because its secrets are %s: they are named, and not changed', async (_how, text) => {
    await mkdir(testHome.home);
    await writeFile(join(testHome.home, 'secrets.json'), text);
    expect(await expectStartError({})).toContain('secrets.json');
    expect(await readFile(join(testHome.home, 'secrets.json'), 'utf8')).toBe(text);
  });

  test('because its secrets are a folder', async () => {
    await mkdir(join(testHome.home, 'secrets.json'), { recursive: true });
    expect(await expectStartError({})).toContain('secrets.json');
  });

  test('because a file has the name of its logs', async () => {
    await mkdir(testHome.home);
    await writeFile(join(testHome.home, 'logs'), '');
    expect(await expectStartError({})).toContain('logs');
  });
});

describe('a server that was named and does not respond', () => {
  test('because nothing listens at REDIS_URL', async () => {
    const said = await expectStartError({ REDIS_URL: `redis://127.0.0.1:${base + 99}` });
    expect(said).toContain('REDIS_URL');
  });

  test('because something else listens at REDIS_URL, and sends nothing', async () => {
    const port = await listen(0);
    const said = await expectStartError({ REDIS_URL: `redis://127.0.0.1:${port}` });
    expect(said).toContain('REDIS_URL');
  });

  test('because nothing listens at MONGODB_URI', async () => {
    const said = await expectStartError({
      MONGODB_URI: `mongodb://127.0.0.1:${base + 99}/carillon`,
    });
    expect(said).toMatch(/MongoDB|MONGODB_URI/);
  });
});

describe('a second stack on the same folder', () => {
  let running: TestHome;
  beforeAll(async () => {
    running = await createTestHome();
    await running.start().ready();
  });
  afterAll(() => running?.remove());

  test('is refused, and the first keeps running', async () => {
    const said = await expectStartError({ CARILLON_HOME: running.home });
    expect(said).toContain('CARILLON_HOME');
    const { api } = JSON.parse(await readFile(join(running.home, 'dev.json'), 'utf8'));
    expect((await fetch(`${api}/topics`)).status).toBe(403);
  });

  test('is refused too when both are started at the same time', async () => {
    const otherPorts = { CARILLON_PORT_BASE: String(await freePortBase('127.0.0.2')) };
    const starts = [
      testHome.start(),
      testHome.start({ ...otherPorts, CARILLON_HOST: '127.0.0.2' }),
    ];
    const ends = starts.map(async (start) => ({ code: await start.exit(), start }));
    const { code, start: loser } = await Promise.race(ends);
    expect({ code, said: loser.stderr() }).toEqual({
      code: 1,
      said: expect.stringContaining('CARILLON_HOME'),
    });
    for (const winner of starts.filter((start) => start !== loser)) await winner.ready();
  });
});

/** Starts. Returns the one sentence of the error. */
async function expectStartError(more: Record<string, string>): Promise<string> {
  const start = testHome.start(more);
  const code = await start.exit();
  expect({ code, said: start.stderr() }).toEqual({ code: 1, said: expect.stringMatching(/\S/) });
  expect(start.stderr()).not.toMatch(/^\s+at .*:\d+|node:internal|Error:/m);
  const lines = start.stderr().trim().split('\n');
  expect(lines.filter((line) => !line.endsWith(' …'))).toHaveLength(1);
  // The watchdog notices the end of the others.
  await until(() => testHome.processes().length === 0, { timeoutMs: 5_000 });
  return start.stderr();
}

async function listen(port: number): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => undefined).unref());
  servers.push(server);
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}
