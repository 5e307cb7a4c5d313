import { generateKeyPairSync } from 'node:crypto';
import { newRequestId } from '@carillon/core/ids';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createConsoleRoutes } from '../src/console.ts';
import { EXAMPLE_IDS } from '../src/reference/operations.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createProgram,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

interface Described {
  operationId: string;
  summary?: string;
  parameters: { name: string; in: string; required: boolean }[];
  requestBody?: {
    content: { 'application/json': { examples?: Record<string, { value: object }> } };
  };
  responses: Record<string, object>;
}
interface Document {
  openapi: string;
  info: { version: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Described>>;
}

let started: ConsoleUnderTest;
let owner: Browser;
let document: Document;
let operations: [method: string, path: string, Described][];
let program: ReturnType<typeof createProgram>;

beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
  await started.store.webhooks.putBoxKey(boxKeyOf(started.env.CREDENTIAL_KEYS));
  // Nobody has logged in.
  const response = await fetch(`${started.url}/openapi-admin.json`);
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  document = (await response.json()) as Document;
  operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]): (typeof operations)[number] => [
      ...([method, path, one] as const),
    ]),
  );
  const grant = { name: 'program', role: 'admin', accounts: 'all' };
  program = createProgram(
    started.url,
    (await owner.post('/api/operators/tokens', grant)).body.token,
  );
});
afterAll(() => started.stop());

/** Contents of the files in the examples, by channel. */
const CREDENTIALS = {
  apns: pemOf('ec'),
  fcm: JSON.stringify(createServiceAccount()),
  'web-push': '',
};
const NO_BODY: [string, { value: object }] = ['', { value: {} }];

function pemOf(type: 'ec' | 'rsa'): string {
  const { privateKey } =
    type === 'ec'
      ? generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
      : generateKeyPairSync('rsa', { modulusLength: 2_048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function createServiceAccount() {
  return {
    ...{ type: 'service_account', project_id: 'shop', private_key_id: 'k1' },
    ...{ client_email: 'push@shop.iam.gserviceaccount.com', private_key: pemOf('rsa') },
    token_uri: 'https://oauth2.googleapis.com/token',
  };
}

/** Makes one object of each kind that a path names. */
async function createObjects(path: string): Promise<Record<string, string>> {
  const account = (await owner.post('/api/accounts', { name: 'One' })).body.id;
  const app = (await owner.post('/api/apps', { account, name: 'One' })).body.id;
  const address = `https://push.example/${app}`;
  const provider = { channel: 'web-push', address, p256dh: 'key', auth: 'auth' } as const;
  const { token } = await started.store.devices.register(app, 'web', provider);
  await started.store.subscriptions.subscribe(app, { token, platform: 'web' }, ['news']);
  const push = (await owner.post(`/api/apps/${app}/pushes`, { to: token, data: {} })).body.id;
  const hook = { url: 'https://receiver.example/hook', events: ['push.finished'] };
  const ofApp = async (kind: string, body: object) =>
    (await owner.post(`/api/apps/${app}/${kind}`, body)).body.id;
  const id = await (path.includes('/keys') ? ofApp('keys', {}) : ofApp('webhooks', hook));
  const redrive = path.includes('{redrive}') ? await ofApp('redrives', { filter: {} }) : '';
  const request = newRequestId(Date.now());
  await started.store.webhookRequests.record(id, [
    {
      ...{ _id: request, webhook: id, at: new Date(), status: 200, milliseconds: 1, bytes: 2 },
      ...{ events: [`${id}.test.1`], types: [{ type: 'test', count: 1 }] },
    },
  ]);
  return { account, app, push, id, request, redrive, token, device: token, topic: 'news' };
}

test('every public route is described, with a summary and a name of its own, and nothing else', () => {
  const { store, engine, env } = started;
  const routes = createConsoleRoutes(store, engine, env, { url: undefined });
  const expected = routes
    .filter(({ isPublic }) => isPublic)
    .map(({ method, path }) => `${method} /api/v1${path.replace(/:(\w+)/g, '{$1}')}`);
  expect(operations.map(([method, path]) => `${method} ${path}`).sort()).toEqual(expected.sort());
  expect(operations.filter(([, , { summary }]) => !summary)).toEqual([]);
  const names = operations.map(([, , { operationId }]) => operationId);
  expect(new Set(names).size).toBe(names.length);
  expect(document).toMatchObject({ openapi: '3.1.0', info: { version: '1.2.3' } });
  expect(document.servers).toEqual([{ url: '/' }]);
});

test('it has nothing that client generators reject', () => {
  const found = JSON.stringify(document).match(/"(?:prefixItems|default|\$schema|\$defs)":/g);
  expect(found).toBeNull();
});

test('each request works with the example of its body, and has a described response', async () => {
  for (const [method, path, { parameters, requestBody, responses }] of operations) {
    const examples = Object.entries(requestBody?.content['application/json'].examples ?? {});
    expect([method, path, examples.length > 0]).toEqual([
      ...[method, path, requestBody !== undefined],
    ]);
    for (const [name, example] of requestBody === undefined ? [NO_BODY] : examples) {
      const ids = await createObjects(path);
      const channel = name in CREDENTIALS ? name : 'web-push';
      const inPath = parameters.filter((parameter) => parameter.in === 'path');
      expect(inPath.every(({ required }) => required)).toBe(true);
      const named: Record<string, string> = { ...ids, channel };
      const actual = path
        .replace('/v1', '')
        .replace(/\{(\w+)\}/g, (_, parameter: string) => named[parameter] ?? '');
      const body = requestBody && fillExample(example.value, ids);
      const { status, body: response } = await program.request(
        ...[method.toUpperCase(), actual, body],
      );
      expect([method, path, name, status, response.error]).toEqual([
        ...[method, path, name, 200, undefined],
      ]);
      expect(Object.keys(responses)).toContain('200');
    }
  }
});

/** Puts objects that exist in the place of those of an example, and contents in its files. */
function fillExample(example: object, ids: Record<string, string>): unknown {
  let text = JSON.stringify(example);
  for (const [name, id] of Object.entries(EXAMPLE_IDS)) text = text.replaceAll(id, ids[name] ?? '');
  return JSON.parse(text, (_, value) => {
    if (typeof value?.base64 !== 'string') return value;
    const content = value.name.endsWith('.p8') ? CREDENTIALS.apns : CREDENTIALS.fcm;
    return { ...value, base64: Buffer.from(content).toString('base64') };
  });
}
