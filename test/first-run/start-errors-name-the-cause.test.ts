import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { checkPorts } from '../../tools/supervisor/bootstrap/ports.mjs';
import { readSettings } from '../../tools/supervisor/bootstrap/settings.mjs';
import { openDataDir } from '../../tools/supervisor/src/data-dir.ts';
import { openSecrets } from '../../tools/supervisor/src/secrets.ts';
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

async function listen(port: number): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => undefined).unref());
  servers.push(server);
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

/** Starts. Returns the one sentence of the error. */
async function expectStartError(more: Record<string, string>): Promise<string> {
  const start = testHome.start(more);
  const code = await start.exit();
  expect({ code, said: start.stderr() }).toEqual({ code: 1, said: expect.stringMatching(/\S/) });
  expect(start.stderr()).not.toMatch(/^\s+at .*:\d+|node:internal|Error:/m);
  const lines = start.stderr().trim().split('\n');
  expect(lines.filter((line) => !line.endsWith(' …'))).toHaveLength(1);
  // The watchdog notices the end of the others.
  await until(() => testHome.processes().length === 0);
  return start.stderr();
}

describe('a taken port', () => {
  test.each([
    ['the API', API_OFFSET],
    ['Redis', REDIS_OFFSET],
    ['the ops port of api 0', OPS_OFFSET],
  ])('of %s is named with the two remedies', async (whose, offset) => {
    await listen(base + offset);
    const said = await checkPorts(readSettings(testHome.env)).catch(
      (error: Error) => error.message,
    );
    for (const part of [whose, `${base + offset}`, 'CARILLON_PORT_BASE', 'CARILLON_HOST'])
      expect(said).toContain(part);
  });

  test('ends a start', async () => {
    await listen(base);
    expect(await expectStartError({})).toContain('CARILLON_PORT_BASE');
  });
});

describe('an invalid value in the environment', () => {
  test.each([
    ['CARILLON_PORT_BASE', 'x'],
    ['CARILLON_PORT_BASE', '0'],
    ['CARILLON_PORT_BASE', '65535'],
    ['CARILLON_PORT_BASE', '-4000'],
    ['CARILLON_HOST', 'example.invalid'],
    ['CARILLON_APIS', 'two'],
    ['CARILLON_DELIVERY_WORKERS', '-1'],
    ['CARILLON_SCHEDULERS', '1.5'],
    ['CARILLON_DEVICE_GATEWAYS', '1000'],
    ['CARILLON_DEMO', 'yes'],
    ['CARILLON_ADDRESS_LIMITS', 'maybe'],
    ['CARILLON_RETENTION_SECONDS', '2 days'],
    ['CARILLON_INSPECT', 'gateway'],
    ['CARILLON_INSPECT', 'api:x'],
    ['CARILLON_INSPECT', 'api:0'],
    ['CARILLON_INSPECT', 'api:70000'],
    ['CARILLON_INSPECT', 'api:1:2'],
    ['REDIS_URL', 'http://127.0.0.1:6379'],
    ['MONGODB_URI', '127.0.0.1:27017'],
  ])('%s=%s is named, unless it is empty', (name, value) => {
    expect(() => readSettings({ [name]: value })).toThrow(new RegExp(`^${name} .*\\.?$`));
    expect(() => readSettings({ [name]: '' })).not.toThrow();
  });

  test('ends a start, and does not prevent that others are named too', async () => {
    const start = testHome.start({ CARILLON_APIS: 'x', CARILLON_DEMO: 'x' });
    expect(await start.exit()).toBe(1);
    expect(start.stderr()).toMatch(/CARILLON_APIS[\s\S]*CARILLON_DEMO/);
  });

  test('of CARILLON_HOST that is no address of this machine is named', async () => {
    expect(await expectStartError({ CARILLON_HOST: '192.0.2.1' })).toContain('CARILLON_HOST');
  });
});

describe('a folder that can not be used', () => {
  test.each([
    ['', 'its name'],
    ['in-it', 'the name of its parent'],
  ])('because a file has %s%s', async (inner) => {
    await writeFile(testHome.home, '');
    const said = await expectStartError({ CARILLON_HOME: join(testHome.home, inner) });
    expect(said).toContain('CARILLON_HOME');
  });

  test.each([
    ['cut off', '{"apiKeyPepper":"00'],
    ['of another kind', '[]'],
    ['without a secret', '{"deviceAuthKeys":"1:00"}'],
    ['empty', ''],
  ])('because its secrets are %s: they are named, and not changed', async (_how, text) => {
    const path = join(testHome.home, 'secrets.json');
    await mkdir(testHome.home);
    await writeFile(path, text);
    expect(() => openSecrets(openDataDir(testHome.home))).toThrow(path);
    expect(await readFile(path, 'utf8')).toBe(text);
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
  test.each<[string, string, () => Promise<string>]>([
    ['nothing listens at', 'REDIS_URL', async () => `redis://127.0.0.1:${base + 99}`],
    [
      'what sends nothing listens at',
      'REDIS_URL',
      async () => `redis://127.0.0.1:${await listen(0)}`,
    ],
    ['nothing listens at', 'MONGODB_URI', async () => `mongodb://127.0.0.1:${base + 99}/carillon`],
  ])('because %s %s', async (_what, name, urlOf) => {
    expect(await expectStartError({ [name]: await urlOf() })).toMatch(
      name === 'REDIS_URL' ? /REDIS_URL/ : /MongoDB|MONGODB_URI/,
    );
  });
});

test('of two stacks on the same folder, started together, one is refused, and so is a third one', async () => {
  const otherPorts = { CARILLON_PORT_BASE: String(await freePortBase('127.0.0.2')) };
  const others = { ...otherPorts, CARILLON_HOST: '127.0.0.2' };
  const starts = [testHome.start(), testHome.start(others)];
  const ends = starts.map(async (start) => ({ code: await start.exit(), start }));
  const { code, start: loser } = await Promise.race(ends);
  expect({ code, said: loser.stderr() }).toEqual({
    code: 1,
    said: expect.stringContaining('CARILLON_HOME'),
  });
  const { api } = (await starts.find((start) => start !== loser)?.ready()) ?? {};
  const third = testHome.start(loser === starts[0] ? {} : others);
  expect([await third.exit(), third.stderr()]).toEqual([
    1,
    expect.stringContaining('CARILLON_HOME'),
  ]);
  expect((await fetch(`${api}/topics`)).status).toBe(403);
});
