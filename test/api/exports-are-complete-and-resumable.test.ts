import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Db } from 'mongodb';
import { parseCsvRecord } from '../../packages/core/src/csv.ts';
import { newPushId } from '../../packages/core/src/ids.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere, runCarillonJson } from '../support/carillon.ts';
import { send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const REGISTERED = 2_300;
/** Characters that a spreadsheet would run as a formula. */
const FORMULA = '-1+1';

let stack: SharedStack;
let mongo: TestMongo;
let tokens: string[];
let folder: string;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
  folder = await mkdtemp(join(tmpdir(), 'carillon-export-'));
  const pool = await createDevicePool(stack, mongo, { registered: REGISTERED, real: 0 });
  tokens = [...pool.tokens].sort();
});
afterAll(async () => {
  await mongo?.close();
  await rm(folder, { recursive: true, force: true });
});

async function exportText(
  path: string,
  tenant: Pick<TestTenant, 'dev'> = stack,
): Promise<{ text: string; response: Response }> {
  const response = await fetch(new URL(path, tenant.dev.api), {
    headers: { authorization: `Bearer ${tenant.dev.apiKey}` },
  });
  return { text: await response.text(), response };
}

interface Line {
  token?: string;
  topic?: string;
  complete?: boolean;
}

async function exportLines(path: string): Promise<Line[]> {
  const { text, response } = await exportText(path);
  expect([response.status, text.at(-1)]).toEqual([200, '\n']);
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
}

describe('an export', () => {
  test('of devices is sorted, complete, and continued by after', async () => {
    const lines = await exportLines('/export/devices');
    expect(lines.at(-1)).toEqual({ complete: true });
    expect(lines.slice(0, -1).map(({ token }) => token)).toEqual(tokens);
    const after = tokens[1_111];
    expect(await exportLines(`/export/devices?after=${after}`)).toEqual(lines.slice(1_112));
    // The rest are whole pages.
    const beforePages = tokens.at(-501);
    expect(await exportLines(`/export/devices?after=${beforePages}`)).toEqual(lines.slice(-501));
    expect(await exportLines(`/export/devices?after=${tokens.at(-1)}`)).toEqual([
      { complete: true },
    ]);
  });

  test('as CSV has the same rows, one header row, and no formula', async () => {
    const devices = mongo.db.collection<{ _id: string }>('devices');
    const [first = ''] = tokens;
    await devices.updateOne({ _id: first }, { $set: { authDigest: FORMULA } });
    const { text, response } = await exportText('/export/devices?format=csv');
    expect(response.headers.get('content-type')).toMatch(/^text\/csv/);
    const records = text.trimEnd().split('\r\n');
    const [head = [], ...rows] = records.slice(0, -1).map((line) => parseCsvRecord(line, true));
    expect(records.at(-1)).toBe('# complete');
    expect(rows.map(([token]) => token)).toEqual(tokens);
    expect(rows[0]?.[head.indexOf('auth_sha256')]).toBe(FORMULA);
    expect(records[1]).toContain(`,'${FORMULA}`);
    expect(rows.every((row) => row.length === head.length)).toBe(true);
    const rest = await exportText(`/export/devices?format=csv&after=${tokens[2_000]}`);
    expect(rest.text.split('\r\n').slice(0, -1)).toEqual(records.slice(2_002));
    await devices.updateOne({ _id: first }, { $unset: { authDigest: 1 } });
  });

  test('of subscriptions, pushes and recipients has the fields that the API shows elsewhere', async () => {
    const [first = '', second = ''] = tokens;
    for (const token of [first, second])
      await stack.api('POST', '/topics/subscribe', { token, topics: ['b', 'a'] });
    const subscriptions = await exportLines('/export/subscriptions');
    const expected = ['a', 'b'].flatMap((topic) =>
      [first, second].map((token) => expect.objectContaining({ topic, token })),
    );
    expect(subscriptions).toEqual([...expected, { complete: true }]);
    const continued = await exportLines(`/export/subscriptions?after=a:${second}`);
    expect(continued).toEqual(subscriptions.slice(2));

    const push = await send(stack, tokens, { data: { text: 'line\nbreak' } });
    const pushes = await exportLines('/export/pushes');
    expect(pushes).toEqual([
      expect.objectContaining({
        id: push.id,
        payload: { text: 'line\nbreak' },
        devices: REGISTERED,
      }),
      { complete: true },
    ]);
    const recipients = await exportLines(`/export/recipients?push=${push.id}`);
    expect(recipients.slice(0, -1).map(({ token }) => token)).toEqual(tokens);
    const tail = await exportLines(`/export/recipients?push=${push.id}&after=${tokens[1_500]}`);
    expect(tail.slice(0, -1).map(({ token }) => token)).toEqual(tokens.slice(1_501));
  });

  test('of pushes names the topics of the request, as the API and the command line do', async () => {
    const [token = ''] = tokens;
    await stack.api('POST', '/topics/subscribe', { token, topics: ['few'] });
    const topics = ['none', 'few'];
    const to = [...topics.map((name) => `/topics/${name}`), token];
    const { id } = await send(stack, to);
    await untilOutcome(stack, id, [token], 'inbox');
    const shown = expect.objectContaining({ id, topics });
    const { json } = await stack.api<{ pushes: Line[] }>('GET', '/pushes');
    expect(json.pushes[0]).toEqual(shown);
    const outcomes = await stack.api<{ push: Line }>('GET', `/pushes/${id}/outcomes`);
    expect(outcomes.json.push).toEqual(shown);
    expect((await exportLines('/export/pushes')).at(-2)).toEqual(shown);
    const listed = await runCarillonJson(stack.home, 'push', 'list', '--app', stack.dev.app);
    expect(listed).toEqual(expect.arrayContaining([shown]));
  });

  test.each([
    ['/export/devices?format=xml', 'INVALID_PARAM'],
    ['/export/devices?after=a%20b', 'INVALID_PARAM'],
    ['/export/subscriptions?after=news', 'INVALID_PARAM'],
    ['/export/pushes?after=1', 'INVALID_PARAM'],
    ['/export/recipients', 'INVALID_PARAM'],
    [`/export/recipients?push=${'f'.repeat(24)}`, 'INVALID_PUSH_ID'],
    ['/export/nothing', 'NOT_FOUND'],
  ] as const)('is refused: GET %s', async (path, code) => {
    expectApiError(await stack.api('GET', path), code);
  });
});

/** Gives an app more than fits into the buffers of two sockets. Returns the ids, sorted. */
async function insertLargePushes({ app }: Pick<TestTenant, 'app'>): Promise<string[]> {
  const now = new Date();
  const data = JSON.stringify({ text: 'x'.repeat(4_000) });
  const documents = Array.from(
    { length: 6_000 },
    (): PushDocument => ({
      ...{
        _id: newPushId(now.getTime()),
        app,
        state: 'finished',
        acceptedAt: now,
        finishedAt: now,
      },
      ...{ expiresAt: now, sendUntil: now, data, devices: 0, counts: {} },
      fan: { seq: 0, next: 0, done: true },
    }),
  );
  await mongo.db.collection<PushDocument>('pushes').insertMany(documents, { ordered: false });
  return documents.map(({ _id }) => _id).sort();
}

/** Begins an export on a connection that takes nothing after the head. */
async function beginExport({ dev }: Pick<TestTenant, 'dev'>): Promise<Socket> {
  const { hostname, port } = new URL(dev.api);
  const socket = connect(Number(port), hostname);
  socket.write(`GET /export/pushes?api_key=${dev.apiKey} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`);
  await new Promise((resolve) => socket.once('readable', resolve));
  return socket;
}

test('an app has two exports at once over all processes, and delays no other app', async () => {
  const busy = await createTestTenant(stack, { limit: null });
  const ids = await insertLargePushes(busy);
  const sockets = [await beginExport(busy), await beginExport(busy)];
  try {
    const response = await busy.api('GET', '/export/devices');
    expectApiError(response, 'RATE_LIMIT_EXCEEDED');
    expect(response.headers.get('retry-after')).toBe('5');
    const { text } = await exportText('/export/devices');
    expect(text).toContain(tokens[0]);
    expect((await busy.api('GET', '/topics')).status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  const exportAll = async () => {
    const { text, response } = await exportText('/export/pushes', busy);
    return response.status === 200 ? text : undefined;
  };
  const text = await until(exportAll, { what: 'a free slot' });
  const lines = text.trimEnd().split('\n');
  expect(lines.pop()).toBe('{"complete":true}');
  expect(lines.map((line) => (JSON.parse(line) as { id: string }).id)).toEqual(ids);
  await mongo.db.collection('pushes').deleteMany({ app: busy.app });
});

describe('carillon export', () => {
  const run = (...args: string[]) =>
    runCarillonHere(stack.home, ['export', ...args], {
      CARILLON_API: stack.dev.api,
      CARILLON_API_KEY: stack.dev.apiKey,
    });

  test.each(['ndjson', 'csv'])('continues a file of %s that was cut in a row', async (format) => {
    const file = join(folder, `devices.${format}`);
    const { text } = await exportText(`/export/devices?format=${format}`);
    for (const bytes of [0, 10, 100_000, text.length - 3]) {
      await writeFile(`${file}.partial`, text.slice(0, bytes));
      const { code, stderr } = await run('devices', '--format', format, '--output', file);
      expect([code, stderr]).toEqual([0, expect.any(String)]);
      expect(await readFile(file, 'utf8')).toBe(text);
    }
  });

  test('reports what the API does not accept', async () => {
    const { code, stderr } = await run('recipients', '--output', join(folder, 'none'));
    expect([code, stderr]).toEqual([1, expect.stringContaining('"push"')]);
  });
});

describe('an export that is imported into an empty installation', () => {
  let target: TestDatabase;
  beforeAll(async () => {
    target = await startTestDatabase();
    const app = { _id: stack.dev.app, account: 'x', name: 'x', createdAt: new Date() };
    await target.db.collection<{ _id: string }>('apps').insertOne(app);
  });
  afterAll(() => target?.stop());

  /** Documents with times in seconds, as exports have them. */
  async function readAll(db: Db, name: string) {
    const prefix = new RegExp(`^${stack.dev.app}:`);
    const filter = name === 'devices' ? { app: stack.dev.app } : { _id: prefix as never };
    const documents = await db.collection(name).find(filter).sort({ _id: 1 }).toArray();
    return documents.map((document) =>
      JSON.parse(
        JSON.stringify(document, (_, value) =>
          typeof value === 'string' ? value.replace(/\.\d{3}Z$/, 'Z') : value,
        ),
      ),
    );
  }

  test.each(['ndjson', 'csv'])('as %s has the same data there', async (format) => {
    await target.db.collection('devices').deleteMany({});
    await target.db.collection('subscriptions').deleteMany({});
    await target.db.collection('topics').deleteMany({});
    // A subscription keeps the platform that its device had: none of these has one.
    const [first, second, third, fourth] = tokens.slice(10);
    const registered = new Date('2025-01-02T03:04:05Z');
    const change = (token: string | undefined, fields: object) =>
      mongo.db.collection('devices').updateOne({ _id: token as never }, { $set: fields });
    const address = { channel: 'apns', address: 'ab'.repeat(32), environment: 'production' };
    const ofApp = { ...address, bundle: 'org.example', since: registered };
    const provider = { ...ofApp, kind: 'liveactivity' };
    const expiresAt = new Date('2099-01-02T03:04:05Z');
    await change(first, { platform: 'ios', provider, uninstalled: true, expiresAt });
    const byFcm = { channel: 'fcm', address: '=1+1', since: registered };
    await change(second, { provider: byFcm, way: 'fcm' });
    const ofIphone = { ...byFcm, address: 'f:1', isApple: true };
    await change(fourth, { platform: 'ios', provider: ofIphone, way: 'fcm' });
    await change(third, { registeredAt: registered, authDigest: 'ab'.repeat(32) });
    for (const kind of ['devices', 'subscriptions']) {
      const file = join(folder, `${kind}-to-import.${format}`);
      const { text } = await exportText(`/export/${kind}?format=${format}`);
      // The platform tells which address is an iPhone's.
      expect(text).not.toContain('isApple');
      await writeFile(file, text);
      const source = kind === 'devices' ? 'carillon' : kind;
      const args = ['import', file, '--app', stack.dev.app, '--source', source];
      expect(await target.runJson(...args)).toMatchObject({ refused: 0 });
    }
    for (const name of ['devices', 'subscriptions', 'topics']) {
      const [expected, imported] = [await readAll(mongo.db, name), await readAll(target.db, name)];
      // A counter's version counts changes, which the import has made together.
      for (const topic of name === 'topics' ? [...expected, ...imported] : []) topic.v = 0;
      // Imported devices say when they were imported, and nothing else.
      const importedAt = expect.any(String);
      const added = name === 'devices' ? { importedAt } : {};
      expect(imported).toEqual(expected.map((document) => ({ ...document, ...added })));
    }
  });
});
