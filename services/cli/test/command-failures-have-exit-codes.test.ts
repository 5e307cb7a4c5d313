import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { AdminError } from '@carillon/admin/admin-error';
import { describe, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { toAdminFailure } from '../src/failure.ts';
import { createSecondsParser, parseTimestamp } from '../src/option-parsers.ts';
import { findStack } from '../src/stack.ts';
import { runCarillon } from './run-carillon.ts';

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
/** Nothing listens on port 1, which only root can bind. */
const UNREACHABLE_MONGODB = { MONGODB_URI: 'mongodb://user:secret@127.0.0.1:1/carillon' };

function createStackHome(): string {
  const home = createTemporaryFolder();
  writeFileSync(join(home, 'dev.json'), JSON.stringify(DEV));
  const secrets = { apiKeyPepper: PEPPER, credentialKeys: SEALING_KEYS };
  writeFileSync(join(home, 'secrets.json'), JSON.stringify(secrets));
  return home;
}

describe('an invalid command line', () => {
  test.each([
    '',
    'nonsense',
    'account',
    'account create',
    'account create a --plan gold',
    'account limit id -1',
    'account limit id 1.5',
    'account suspend id x',
    'app create name',
    'app set id',
    'app set id --payload-limit 0',
    'push send --to a --data [1]',
    'push send --to , --data {}',
    'push send --to a --data {',
    'push send --data {}',
    'doctor --gently',
    'simulate --app id --devices -1',
    'credential apns --app id',
    'credential apns --app id --key a --certificate b',
    'credential fcm --app id',
    'credential fcm --app id --service-account a --gateway nowhere',
    'credential remove pigeon --app id',
    'app set id --fcm-fallback -1',
    'app set id --bundle-id com.example.*',
    'app set id --web-host https://example.com',
    'app list --limit 0',
    'push list',
    'push list --app id --since yesterday',
    'push list --app id --topic a:b',
    'failures redrive --app id',
    'failures redrive --app id --all --from 1h',
    'failures redrive --app id --push x',
    'push send --to a --data {} --ttl 1w',
    'push send --to a --data {} --schedule tomorrow',
    'push send --to a --data {} --notification Hello',
    'push send --to a --data {} --priority urgent',
    'push send --to a --data {} --apns []',
    'push send --to a --data {} --idempotency-key \n',
  ])('carillon %s exits with 2 and a message', async (line) => {
    const { code, out, err } = await runCarillon(line === '' ? [] : line.split(' '));
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(/\w/);
  });

  test.each([
    ['is not there', '/nonexistent/apns.json', "The file /nonexistent/apns.json can't be read"],
    ['has no JSON', 'half', 'It is not JSON'],
    ['has no object', 'list', 'It must be a JSON object'],
  ])('names the option whose file %s', async (_case, file, problem) => {
    const folder = createTemporaryFolder();
    writeFileSync(join(folder, 'half'), '{"headers":');
    writeFileSync(join(folder, 'list'), '[1]');
    const args = ['--to', 'a', '--data', '{}', '--apns', `@${resolve(folder, file)}`];
    const { code, err } = await runCarillon(['push', 'send', ...args]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(problem) });
    expect(err).toContain('--apns');
  });

  test('exits with 2 when the environment is invalid', async () => {
    const { code, err } = await runCarillon(['migrate'], { env: { MONGODB_URI: 'redis://x' } });
    expect(code).toBe(2);
    expect(err).toMatch(/^Wrong environment: .*MONGODB_URI\n$/);
  });

  test('prints one JSON value with --json', async () => {
    const { out, err } = await runCarillon(['nonsense', '--json']);
    expect(JSON.parse(out)).toEqual({ error: err.trim() });
  });
});

test('help and version exit with 0', async () => {
  expect(await runCarillon(['push', 'send', '--help'])).toMatchObject({ code: 0, err: '' });
  expect(await runCarillon(['--version'])).toEqual({ code: 0, out: '1.2.3\n', err: '' });
});

describe('an unreachable server', () => {
  test.each([
    'doctor',
    'migrate',
    'account create x',
    'queues',
    'device show x',
    'push status id',
    'push delete id',
    'push send --app id --to a --data {}',
    'topic list --app id',
    'failures redrive --app id --all',
    'simulate --app id',
  ])('carillon %s without a stack exits with 3 and a hint', async (line) => {
    const { code, err } = await runCarillon(line.split(' '));
    expect(code).toBe(3);
    expect(err).toContain('npm start');
  });

  test('exits with 3, and no password is printed', async () => {
    const { code, out, err } = await runCarillon(['--json', 'app', 'show', 'id'], {
      env: UNREACHABLE_MONGODB,
    });
    expect(code).toBe(3);
    expect(err).toMatch(/^MongoDB at 127\.0\.0\.1:1 can't be reached: .*ECONNREFUSED.*\n$/);
    expect(JSON.parse(out)).toEqual({ error: err.trim() });
  });

  test('exits with 3, and the jobs of the queues are printed without MongoDB', async () => {
    const redis = await startRedis();
    const env = { ...UNREACHABLE_MONGODB, REDIS_URL: redis.url };
    const { code, out, err } = await runCarillon(['--json', 'queues'], { env });
    const { code: lineCode, out: lines } = await runCarillon(['queues'], { env });
    await redis.stop();
    expect([code, lineCode]).toEqual([3, 3]);
    const send = expect.objectContaining({ name: 'send', waiting: 0, hasWorker: false });
    expect(JSON.parse(out)).toMatchObject({
      queues: expect.arrayContaining([send]),
      error: err.trim(),
    });
    expect(err).toMatch(/^MongoDB at 127\.0\.0\.1:1 can't be reached/);
    expect(lines).toMatch(/^QUEUE .*\nsend .*none\n/);
  });

  test('exits with 3 when it is the API', async () => {
    const env = { CARILLON_API: 'http://127.0.0.1:1', CARILLON_API_KEY: 'x' };
    const { code, out, err } = await runCarillon(['--json', 'push', 'status', 'id'], { env });
    expect(code).toBe(3);
    expect(JSON.parse(out)).toEqual({ error: err.trim() });
  });

  test('is one of the findings of the doctor', async () => {
    const { code, out } = await runCarillon(['doctor', '--json'], { env: UNREACHABLE_MONGODB });
    expect(code).toBe(1);
    expect(JSON.parse(out)).toContainEqual({ check: 'node', ok: true, detail: '24.0.0' });
    const mongodb = expect.objectContaining({ check: 'mongodb', ok: false });
    expect(JSON.parse(out)).toContainEqual(mongodb);
  });
});

describe('an invalid credential exits with 1, and the message names', () => {
  const folder = createTemporaryFolder();
  const key = join(folder, 'key.p8');
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  writeFileSync(key, privateKey.export({ format: 'pem', type: 'pkcs8' }));

  test.each([
    ['--key-id', ['apns', '--key', key, '--team-id', 'TEAM123456']],
    ['--team-id', ['apns', '--key', key, '--key-id', 'ABCDE12345']],
    ["can't be read", ['apns', '--key', join(folder, 'missing.p8')]],
    [key, ['fcm', '--service-account', key]],
  ])('%s for %j', async (named, args) => {
    const { code, err } = await runCarillon(['credential', ...args, '--app', 'id']);
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining(named) });
  });
});

test('an unreachable sandbox exits with 3', () => {
  const error = new AdminError('SANDBOX_UNREACHABLE', 'The sandbox is down.');
  expect(toAdminFailure(error)).toMatchObject({ exitCode: 3, message: 'The sandbox is down.' });
});

describe('the stack', () => {
  test('is read from the data folder', () => {
    const CARILLON_HOME = createStackHome();
    const secrets = { pepper: PEPPER, sealingKeys: SEALING_KEYS };
    expect(findStack({ CARILLON_HOME })).toEqual({ home: CARILLON_HOME, ...secrets, ...DEV });
  });

  test('is read from the environment first', () => {
    const own = { MONGODB_URI: DEV.mongodb, CARILLON_API: DEV.api };
    const other = { REDIS_URL: 'redis://cache:1', CARILLON_MQTT: 'mqtts://edge' };
    const stack = findStack({ CARILLON_HOME: createStackHome(), ...own, ...other });
    expect(stack).toMatchObject({ redis: 'redis://cache:1', mqtt: 'mqtts://edge' });
    expect(stack).toMatchObject({ pepper: PEPPER, apiKey: DEV.apiKey });
  });

  test('does not use its secrets for the servers of another stack', () => {
    const other = { MONGODB_URI: 'mongodb://db/carillon', CARILLON_API: 'https://push.example' };
    const stack = findStack({ CARILLON_HOME: createStackHome(), ...other });
    expect(stack).toMatchObject({ pepper: undefined, sealingKeys: undefined, apiKey: undefined });
  });
});

describe('a duration', () => {
  test.each([
    ['0', 0],
    ['90', 90],
    ['90s', 90],
    ['15m', 900],
    ['1h', 3_600],
    ['30d', 2_592_000],
  ])('%s is parsed as %d seconds', (text, value) =>
    expect(createSecondsParser(2_592_000)(text)).toBe(value),
  );

  test.each(['', 'h', '1w', '1.5h', '-1', '1 h', '31d', '1H'])('rejects "%s"', (text) => {
    expect(() => createSecondsParser(2_592_000)(text)).toThrow('It must be seconds');
  });
});

describe('a time', () => {
  test.each([
    ['1893456000', 1_893_456_000],
    ['2030-01-01T00:00:00Z', 1_893_456_000],
    ['2030-01-01T01:00:00+01:00', 1_893_456_000],
    ['2030-01-01T00:00:00.001Z', 1_893_456_001],
  ])('%s is parsed as %d', (text, value) => expect(parseTimestamp(text)).toBe(value));

  test.each(['', 'tomorrow', '2030-01-01', '2030-01-01T00:00:00', '2030-02-30T00:00:00Z', '-5'])(
    'rejects "%s"',
    (text) => expect(() => parseTimestamp(text)).toThrow('It must be a unix timestamp'),
  );
});
