import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { listCommandPaths } from '../../services/cli/test/run-carillon.ts';
import { createTestTenant, withStore } from '../support/api/tenants.ts';
import { type CarillonRun, runCarillon, runCarillonHere } from '../support/carillon.ts';
import { prepareExample } from '../support/first-run/example-words.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedProviders, useSharedStack } from '../support/shared-stack.ts';
import { callApi } from '../support/stack/call-api.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const ID = /^[0-9a-f]{24}$/;
const KEY = /^[0-9a-zA-Z]{64}$/;
/** Well-formed, and of nothing. */
const UNKNOWN_ID = '000000000000000000000000';
/** A revoked key may work for so long. */
const REVOKED_MS = 10_000;

let stack: SharedStack;
let device: MqttDevice;
/** The API follows seconds later. */
let keyRevoked: Promise<void>;
beforeAll(async () => {
  stack = await useSharedStack();
  device = await newMqttDevice(stack.dev);
  keyRevoked = revokeKey();
  // Its own test reports its failure.
  keyRevoked.catch(() => undefined);
});
afterAll(() => device?.disconnect());

describe('accounts', () => {
  test('are made, limited, suspended and resumed', async () => {
    const { id } = await sendRequest('account', 'create', 'one', '--plan', 'pro');
    expect(id).toMatch(ID);
    expect(await sendRequest('account', 'limit', `${id}`, '1000')).toMatchObject({ id });
    expect(await sendRequest('account', 'limit', `${id}`, 'unlimited')).toMatchObject({ id });
    expect(await sendRequest('account', 'suspend', `${id}`)).toMatchObject({ id });
    expect(await sendRequest('account', 'resume', `${id}`)).toMatchObject({ id });
  });
});

describe('apps and keys', () => {
  test('are made, and every key works until it is revoked', () => keyRevoked);

  test('are listed with their last use, without the keys themselves', async () => {
    const startedAt = Date.now();
    await stack.api('GET', `/devices/${device.token}`);
    const list = () => run('--json', 'key', 'list', '--app', stack.dev.app);
    const { stdout } = await until(async () => {
      const listed = await list();
      const keys = JSON.parse(listed.stdout) as { lastUsedAt?: string }[];
      return keys.some(({ lastUsedAt }) => lastUsedAt !== undefined) ? listed : undefined;
    });
    const [key] = JSON.parse(stdout) as { lastUsedAt: string }[];
    expect(Math.abs(Date.parse(key?.lastUsedAt ?? '') - startedAt)).toBeLessThan(600_000);
    expect(stdout).not.toContain(stack.dev.apiKey);
    expect(stdout).not.toMatch(/[0-9a-zA-Z]{64}/);
  });
});

test('what waits is listed by queue, by channel and by app', async () => {
  const { queues, channels } = await sendRequest<Record<string, object[]>>('queues');
  expect(queues).toContainEqual(expect.objectContaining({ name: 'send', hasWorker: true }));
  expect(channels).toContainEqual(expect.objectContaining({ channel: 'mqtt' }));
  const { stdout } = await run('queues');
  expect(stdout).toMatch(/^QUEUE +WAITING +ACTIVE +DELAYED +OLDEST +WORKER\nsend /);
});

describe('devices and pushes', () => {
  test('are shown as the API shows them', async () => {
    const { stdout: shown } = await run('--json', 'device', 'show', device.token);
    const { text } = await stack.api('GET', `/devices/${device.token}`);
    const but = /"seconds_ago":\d+/;
    expect(shown.trim().replace(but, '')).toBe(text.replace(but, ''));
    const { stdout: described } = await run('device', 'show', device.token);
    expect(described).toContain('Way of its pushes: MQTT.');
    const list = await sendRequest<{ token: string }[]>('device', 'list', '--app', stack.dev.app);
    expect(list).toContainEqual(expect.objectContaining({ token: device.token }));
  });

  test('are sent, and followed from the inbox to the receipt', async () => {
    const data = '{"n":12345678901234567890,"f":1.0}';
    const sent = await sendRequest('push', 'send', '--to', device.token, '--data', data);
    expect(sent).toMatchObject({ success: true, info: { devices: 1 } });
    const id = `${sent.id}`;
    const outcomes = () => sendRequest('push', 'outcomes', id);
    await until(async () => JSON.stringify((await outcomes()).outcomes) === '{"inbox":1}');
    for (const words of [
      ['push', 'outcomes', id],
      ['push', 'outcomes', id, '--token', device.token],
      ['device', 'pushes', device.token],
    ])
      expect((await run(...words)).stdout).toContain('pending (stored)');
    const { stdout } = await runAsOperator('--json', 'push', 'status', id);
    expect(stdout).toContain(`"payload":${data}`);
    await device.connect();
    expect((await device.waitFor(1))[0]?.payload).toBe(data);
    await until(async () => JSON.stringify((await outcomes()).outcomes) === '{"delivered":1}');
    const recipientStatus = await sendRequest('push', 'outcomes', id, '--token', device.token);
    expect(recipientStatus).toMatchObject({ outcome: 'delivered' });
  });

  test('are sent with all that the API takes, once for a key', async () => {
    const when = new Date(Date.now() + 3_600_000).toISOString();
    const iphone = ['--notification', '{"body":"Hi"}', '--content-available', '--mutable-content'];
    const times = ['--ttl', '1h', '--schedule', when, '--idempotency-key', 'order 1'];
    const args = ['--to', device.token, '--data', '{"a":1}', ...times, ...iphone];
    const [first, again] = [
      await sendRequest('push', 'send', ...args),
      await sendRequest('push', 'send', ...args),
    ];
    expect(again).toEqual(first);
    const schedule = Math.ceil(Date.parse(when) / 1_000);
    const listed = await sendRequest<unknown[]>(
      ...['push', 'list', '--app', stack.dev.app, '--state', 'scheduled', '--limit', '1'],
    );
    const ends = { schedule, expiration: schedule + 3_600 };
    expect(listed).toEqual([
      expect.objectContaining({ id: first.id, state: 'scheduled', ...ends }),
    ]);
    const { stdout } = await run('push', 'send', ...args.with(3, '{"a":2}'));
    expect(stdout).toBe('');
    const recipients = ['--to', device.token, '--data', '{"a":1}'];
    const limited = await run('push', 'send', ...recipients, '--active-within', '30d');
    expect(limited.stderr).toContain('active_within');
  });
});

test('pushes are found by topic, state and time, deleted, and topics are listed', async () => {
  const { dev, api } = await createTestTenant(stack, { limit: null });
  const { token } = await registerDevice(dev);
  await api('POST', '/topics/subscribe', { token, topics: ['news', 'sport'] });
  const key = { CARILLON_API: dev.api, CARILLON_API_KEY: dev.apiKey };
  const ask = async (...args: string[]) => {
    const { stdout } = await runCarillonHere(stack.home, ['--json', ...args], key);
    return JSON.parse(stdout);
  };
  const send = async (topic: string): Promise<string> =>
    (await ask('push', 'send', '--topic', topic, '--data', '{"a":1}')).id;
  const list = async (...filters: string[]): Promise<string[]> => {
    const pushes: { id: string }[] = await ask('push', 'list', '--app', dev.app, ...filters);
    return pushes.map(({ id }) => id);
  };
  const [news, sport] = [await send('news'), await send('sport')];
  expect(await list()).toEqual([sport, news]);
  expect(await list('--limit', '1')).toEqual([sport]);
  expect(await list('--before', sport)).toEqual([news]);
  expect(await list('--topic', 'news', '--state', 'open', '--since', '1h')).toEqual([news]);
  expect(await list('--since', new Date(Date.now() + 60_000).toISOString())).toEqual([]);
  expect(await ask('push', 'delete', news)).toEqual({ success: true });
  expect(await list('--state', 'deleted')).toEqual([news]);
  await until(async () => (await list('--outcome', 'deleted')).includes(news));

  const topics = await ask('topic', 'list', '--app', dev.app);
  expect(topics).toEqual([
    { name: 'news', subscribers: 1 },
    { name: 'sport', subscribers: 1 },
  ]);
  const counted = { name: 'news', subscribers: 1, platforms: ['electron'] };
  const shown = { ...counted, devices: [{ token, platform: 'electron' }] };
  expect(await ask('topic', 'show', 'news', '--app', dev.app)).toEqual(shown);
  const absent = await run('topic', 'show', 'none', '--app', dev.app);
  expect(absent).toMatchObject({ code: 1, stderr: 'The app has no topic none.\n' });
});

test('a push is sent for an app without its key, and rejected as by the API', async () => {
  const { dev, account } = await createTestTenant(stack, { limit: null });
  const receiver = await newMqttDevice(dev);
  await receiver.connect();
  const data = '{"n":12345678901234567890}';
  const send = (...args: string[]) =>
    runCarillonHere(stack.home, ['--json', 'push', 'send', '--app', dev.app, ...args], {
      CARILLON_API: 'http://127.0.0.1:1',
    });
  const args = ['--to', receiver.token, '--data', data, '--idempotency-key', 'order 1'];
  const first = await send(...args);
  expect(JSON.parse(first.stdout)).toMatchObject({ success: true, info: { devices: 1 } });
  expect(await send(...args)).toEqual(first);
  const [arrival] = await receiver.waitFor(1);
  expect(arrival?.payload).toBe(data);
  await receiver.disconnect();

  const { text } = await callApi(dev, 'POST', '/push', { to: device.token, data: {} });
  const rejected = await send('--to', device.token, '--data', '{}');
  expect([rejected.code, rejected.stdout]).toEqual([1, `${text}\n`]);
  const entries = await withStore(stack, ({ audit }) =>
    audit.list({ accounts: [account], limit: 10 }),
  );
  const results = entries.map(({ action, ends }) => [action, ends[0]?.result]);
  expect(results).toEqual([
    ['push.send', 'NO_RECIPIENTS'],
    ['push.send', 'done'],
    ['push.send', 'done'],
  ]);
});

test('failures are listed, and their pushes sent again until the end', async () => {
  const providers = await useSharedProviders();
  const { dev, account } = await providers.tenant();
  const { token, address } = await registerIphone(dev);
  await providers.sandbox.script('apns', address, [{ as: 'BadCollapseId' }]);
  const { json } = await callApi(dev, 'POST', '/push', { to: token, data: { a: 1 } });
  const ofApp = ['--app', dev.app];
  const list = () => sendRequest<object[]>('failures', 'list', ...ofApp, '--channel', 'apns');
  const [failure] = await until(async () => (await list()).length > 0 && list());
  expect(failure).toMatchObject({ push: json.id, channel: 'apns', failed: 1, redriven: 0 });
  expect(await sendRequest('failures', 'list', ...ofApp, '--to', '1h')).toEqual([]);

  expect((await run('failures', 'redrive', ...ofApp)).code).toBe(2);
  const redriven = await sendRequest('failures', 'redrive', ...ofApp, '--push', `${json.id}`);
  const result = { state: 'finished', total: 1, done: 1, recipients: 1, skipped: 0 };
  expect(redriven).toMatchObject({ ...result, app: dev.app });
  expect(await providers.sandbox.receivedOver('apns', address)).toHaveLength(2);
  expect(await list()).toMatchObject([{ push: json.id, redriven: 1 }]);
  const [entry] = await providers.store.audit.list({ accounts: [account], limit: 10 });
  const actor = expect.objectContaining({ name: 'carillon command' });
  expect(entry).toMatchObject({
    actor,
    action: 'failures.redrive',
    ends: [{ result: 'done', facts: { id: redriven.id } }],
  });

  const { id } = await sendRequest('failures', 'redrive', ...ofApp, '--all', '--no-wait');
  const ended = () => providers.store.redrives.find(`${id}`);
  await until(async () => (await ended())?.state === 'finished');
  await providers.close();
});

test('fields of providers reach them as they are in a file', async () => {
  const providers = await useSharedProviders();
  const { dev } = await providers.tenant();
  const { token } = await registerIphone(dev);
  const file = join(createTemporaryFolder(), 'apns.json');
  writeFileSync(file, '{\n  "payload": { "n": 12345678901234567890, "aps": { "badge": 0 } }\n}\n');
  const args = ['push', 'send', '--to', token, '--data', '{"a":1}', '--apns', `@${file}`];
  const others = ['--priority', 'normal', '--fcm', '{"android":{}}', '--web-push', '{}'];
  const key = { CARILLON_API: dev.api, CARILLON_API_KEY: dev.apiKey };
  const { stdout } = await runCarillonHere(stack.home, ['--json', ...args, ...others], key);
  const [received] = await until(async () => {
    const requests = await providers.sandbox.received(JSON.parse(stdout).id);
    return requests.length > 0 && requests;
  });
  expect(received).toMatchObject({
    headers: { 'apns-priority': '5' },
    payload: { a: 1, aps: { badge: 0 } },
  });
  const { options } = (await providers.store.pushes.inspect(JSON.parse(stdout).id)) ?? {};
  expect(options).toEqual({
    priority: 'normal',
    apns: '{"payload":{"n":12345678901234567890,"aps":{"badge":0}}}',
    ...{ fcm: '{"android":{}}', web_push: '{}' },
  });
  await providers.close();
});

test('simulate prints one JSON line for each push that arrives, until it is stopped', async () => {
  const args = ['--json', 'simulate', '--app', stack.dev.app, '--devices', '3'];
  const child = spawn(process.execPath, ['services/cli/src/main.ts', ...args], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, CARILLON_HOME: stack.home },
  });
  const ended = once(child, 'exit');
  const lines: Record<string, unknown>[] = [];
  createInterface(child.stdout).on('line', (line) => lines.push(JSON.parse(line)));
  const of = (event: string) => lines.filter((line) => line.event === event);
  try {
    await until(() => of('connected').length === 3);
    const tokens = of('connected').map(({ token }) => token);
    const { json } = await stack.api('POST', '/push', { to: tokens, data: { hello: 1 } });
    await until(() => of('push').length === 3);
    for (const line of of('push'))
      expect(line).toMatchObject({ id: json.id, payload: { hello: 1 } });
    expect(new Set(of('push').map(({ token }) => token))).toEqual(new Set(tokens));
  } finally {
    child.kill('SIGINT');
  }
  expect((await ended)[0]).toBe(0);
});

/** They print a JSON value for each event. */
const STREAMS = ['simulate'];
/** It tells of the whole stack, which other files use. */
const MAY_FIND_FAULTS = ['doctor'];
/** It changes the credentials of all apps: services/cli/test/reseal-keeps-all-credentials.test.ts runs it. */
const SHOWN_ONLY = ['credential reseal'];

describe.each(listCommandPaths())('carillon %s', (path) => {
  let example: string;

  test('has an example in its help', async () => {
    const { code, stdout } = await run(...path.split(' '), '--help');
    expect(code).toBe(0);
    example = /\nExample:\n {2}(.+)\n$/.exec(stdout)?.[1] ?? '';
    expect(`${example} `).toMatch(new RegExp(`^carillon ${path} `));
  });

  if (SHOWN_ONLY.includes(path)) return;
  test.each([{ json: [] }, { json: ['--json'] }])('runs it: $json', async ({ json }) => {
    const { args, env } = await prepareExample(stack, example);
    const { code, stdout, stderr } = await runCarillonHere(stack.home, [...args, ...json], env);
    if (!MAY_FIND_FAULTS.includes(path))
      expect({ code, stderr }).toEqual({ code: 0, stderr: expect.any(String) });
    const lines = stdout.split('\n').filter((line) => line !== '');
    const values = lines.flatMap(parseJson);
    if (json.length === 0) expect(values).toEqual([]);
    else if (STREAMS.includes(path)) expect(values).toHaveLength(lines.length);
    else expect([lines.length, values.length]).toEqual([1, 1]);
  });
});

/** Parses a line; empty if it is no JSON value. */
function parseJson(line: string): unknown[] {
  try {
    return [JSON.parse(line)];
  } catch {
    return [];
  }
}

describe('the exit code', () => {
  test.each([
    ['an unknown account', ['account', 'suspend', UNKNOWN_ID]],
    ['an app of no account', ['app', 'create', 'x', '--account', UNKNOWN_ID]],
    ['an unknown app to pause', ['app', 'pause', UNKNOWN_ID]],
    ['an unknown app', ['app', 'set', UNKNOWN_ID, '--payload-limit', '5']],
    ['keys of no app', ['key', 'list', '--app', UNKNOWN_ID]],
    ['an unknown key', ['key', 'revoke', UNKNOWN_ID]],
    ['devices of no app', ['device', 'list', '--app', UNKNOWN_ID]],
    ['an unknown device', ['device', 'show', 'f00d']],
    ['a push without a known recipient', ['push', 'send', '--to', 'f00d', '--data', '{}']],
    ['an unknown push', ['push', 'status', UNKNOWN_ID]],
    ['pushes of no app', ['push', 'list', '--app', UNKNOWN_ID]],
    ['pushes to an unknown device', ['device', 'pushes', 'f00d']],
    ['outcomes of no push', ['push', 'outcomes', UNKNOWN_ID]],
  ])('is 1 for %s', async (_what, args) => {
    expectUserError(await run('--json', ...args));
  });

  test.each([
    [0, ['account', 'create', 'five']],
    [1, ['push', 'status', UNKNOWN_ID]],
    [2, ['dance']],
  ])('%i and the one JSON value pass through npm', async (code, args) => {
    const said = await runThroughNpm('--json', ...args);
    expect(said.code).toBe(code);
    expect(JSON.parse(said.stdout)).toEqual(expect.any(Object));
  });
});

/** A sentence for people, a JSON value for scripts, and never a stack trace or a key. */
function expectUserError({ code, stdout, stderr }: CarillonRun): void {
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringMatching(/\S/) });
  expect(stderr).not.toMatch(/^\s+at .*:\d+/m);
  expect(JSON.parse(stdout)).toMatchObject({ error: expect.any(String) });
}

async function revokeKey(): Promise<void> {
  const { id: account } = await sendRequest('account', 'create', 'three');
  const app = await sendRequest('app', 'create', 'three', '--account', `${account}`);
  expect(app).toEqual({ id: expect.stringMatching(ID), apiKey: expect.stringMatching(KEY) });
  const key = await sendRequest('key', 'create', '--app', `${app.id}`);
  expect(key).toEqual({ id: expect.any(String), apiKey: expect.stringMatching(KEY) });
  for (const { apiKey } of [app, key]) {
    expect(await topicsWith(`${apiKey}`)).toMatchObject({ status: 200 });
  }
  expect(await sendRequest('key', 'revoke', `${key.id}`)).toEqual({ id: key.id });
  await untilStatus(key.apiKey, 403);
  expect(await topicsWith(`${app.apiKey}`)).toMatchObject({ status: 200 });
}

async function untilStatus(apiKey: unknown, status: number): Promise<void> {
  const [lag, since] = [createLagRecord(), performance.now()];
  const hasStatus = async () => (await topicsWith(`${apiKey}`)).status === status;
  await lag.during(until(hasStatus, { everyMs: 500 }));
  expect(performance.now() - since).toBeLessThan(REVOKED_MS + 3 * lag.maxMs());
}

/** Addresses the API as the app of this file. */
const ownKey = () => ({ CARILLON_API: stack.dev.api, CARILLON_API_KEY: stack.dev.apiKey });

/** Runs `carillon --json ARGS`, and returns its output. */
async function sendRequest<T = Record<string, unknown>>(...args: string[]): Promise<T> {
  const { code, stdout, stderr } = await run('--json', ...args);
  if (code !== 0) throw new Error(`carillon ${args.join(' ')}: ${code} ${stderr}`);
  return JSON.parse(stdout) as T;
}

function run(...args: string[]): Promise<CarillonRun> {
  return runCarillonHere(stack.home, args, ownKey());
}

/** Runs a command in a process of its own. */
function runAsOperator(...args: string[]): Promise<CarillonRun> {
  return runCarillon(stack.home, args, ownKey());
}

function topicsWith(apiKey: string) {
  return callApi({ ...stack.dev, apiKey }, 'GET', '/topics');
}

function runThroughNpm(...args: string[]): Promise<CarillonRun> {
  const env = { ...process.env, CARILLON_HOME: stack.home };
  return new Promise((resolve) => {
    const child = execFile(
      'npm',
      ['run', '-s', 'carillon', '--', ...args],
      { cwd: ROOT, env },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}
