import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { findStack } from '../src/stack.ts';
import { carillon } from './carillon.ts';

const DEV = {
  api: 'http://127.0.0.1:4000',
  apiKey: 'own-key',
  mqtt: 'mqtt://127.0.0.1:1883',
  mongodb: 'mongodb://127.0.0.1:4006/carillon',
  redis: 'redis://127.0.0.1:4005',
  processes: [],
};
const PEPPER = 'p'.repeat(64);
const SEALING_KEYS = `1:${'a'.repeat(64)}`;
/** Nothing listens on port 1, and nobody may without being root. */
const NO_MONGODB = { MONGODB_URI: 'mongodb://user:secret@127.0.0.1:1/carillon' };

function homeOfStack(): string {
  const home = temporaryFolder();
  writeFileSync(join(home, 'dev.json'), JSON.stringify(DEV));
  const secrets = { apiKeyPepper: PEPPER, credentialKeys: SEALING_KEYS };
  writeFileSync(join(home, 'secrets.json'), JSON.stringify(secrets));
  return home;
}

describe('a wrong command line', () => {
  test.each([
    [['nonsense']],
    [['account']],
    [['account', 'create']],
    [['account', 'create', 'a', '--plan', 'gold']],
    [['account', 'limit', 'id', '-1']],
    [['account', 'limit', 'id', '1.5']],
    [['app', 'create', 'name']],
    [['app', 'set', 'id']],
    [['app', 'set', 'id', '--payload-limit', '0']],
    [['push', 'send', '--to', 'a', '--data', '[1]']],
    [['push', 'send', '--to', ',', '--data', '{}']],
    [['credential', 'apns', '--app', 'id']],
    [['credential', 'apns', '--app', 'id', '--key', 'a', '--certificate', 'b']],
    [['credential', 'fcm', '--app', 'id']],
    [['credential', 'fcm', '--app', 'id', '--service-account', 'a', '--gateway', 'nowhere']],
    [['credential', 'remove', 'pigeon', '--app', 'id']],
    [['app', 'set', 'id', '--fcm-fallback', '-1']],
  ])('%j ends with 2 and words', async (args) => {
    const { code, out, err } = await carillon(args);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(/\w/);
  });

  test('ends with 2 when the environment is wrong', async () => {
    const { code, err } = await carillon(['migrate'], { env: { MONGODB_URI: 'redis://x' } });
    expect(code).toBe(2);
    expect(err).toMatch(/^Wrong environment: .*MONGODB_URI\n$/);
  });

  test('is answered by one JSON value where that was asked for', async () => {
    const { out, err } = await carillon(['nonsense', '--json']);
    expect(JSON.parse(out)).toEqual({ error: err.trim() });
  });
});

test('help and version end with 0', async () => {
  expect(await carillon(['push', 'send', '--help'])).toMatchObject({ code: 0, err: '' });
  expect(await carillon(['--version'])).toEqual({ code: 0, out: '1.2.3\n', err: '' });
});

describe('a server that is not there', () => {
  test.each([
    [['doctor']],
    [['migrate']],
    [['push', 'status', 'id']],
    [['simulate', '--app', 'id']],
  ])('%j without any stack ends with 3 and the way out', async (args) => {
    const { code, err } = await carillon(args);
    expect(code).toBe(3);
    expect(err).toContain('npm start');
  });

  test('ends with 3, and no password is told', async () => {
    const { code, out, err } = await carillon(['--json', 'app', 'show', 'id'], { env: NO_MONGODB });
    expect(code).toBe(3);
    expect(err).toMatch(/^MongoDB at 127\.0\.0\.1:1 can't be reached: .*ECONNREFUSED.*\n$/);
    expect(JSON.parse(out)).toEqual({ error: err.trim() });
  });

  test('is one finding among others to the doctor', async () => {
    const { code, out } = await carillon(['doctor', '--json'], { env: NO_MONGODB });
    expect(code).toBe(1);
    expect(JSON.parse(out)).toContainEqual({ check: 'node', ok: true, detail: '24.0.0' });
    expect(JSON.parse(out)).toContainEqual(
      expect.objectContaining({ check: 'mongodb', ok: false }),
    );
  });
});

describe('the stack', () => {
  test('is the one of the folder', () => {
    const CARILLON_HOME = homeOfStack();
    const secrets = { pepper: PEPPER, sealingKeys: SEALING_KEYS };
    expect(findStack({ CARILLON_HOME })).toEqual({ home: CARILLON_HOME, ...secrets, ...DEV });
  });

  test('is first the one of the environment', () => {
    const env = { CARILLON_HOME: homeOfStack(), MONGODB_URI: DEV.mongodb, CARILLON_API: DEV.api };
    const stack = findStack({
      ...env,
      REDIS_URL: 'redis://cache:1',
      CARILLON_MQTT: 'mqtts://edge',
    });
    expect(stack).toMatchObject({ redis: 'redis://cache:1', mqtt: 'mqtts://edge' });
    expect(stack).toMatchObject({ pepper: PEPPER, apiKey: DEV.apiKey });
  });

  test("keeps its secrets from another's servers", () => {
    const others = { MONGODB_URI: 'mongodb://db/carillon', CARILLON_API: 'https://push.example' };
    const stack = findStack({ CARILLON_HOME: homeOfStack(), ...others });
    expect(stack).toMatchObject({
      pepper: undefined,
      sealingKeys: undefined,
      apiKey: undefined,
    });
  });
});
