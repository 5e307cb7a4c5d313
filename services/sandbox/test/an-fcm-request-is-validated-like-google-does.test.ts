import { createSign } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { Agent, type RequestOptions, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { type App, deleteApp, initializeApp } from 'firebase-admin/app';
import { getMessaging, type Message, type Messaging } from 'firebase-admin/messaging';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const TOKEN = 'fcm-token:1';
const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';

let sandbox: SandboxUnderTest;
let agent: Agent;
let app: App;
let messaging: Messaging;

beforeAll(async () => {
  sandbox = await startSandbox();
  agent = createRedirectingAgent();
});

beforeEach(() => {
  app = initializeApp(
    {
      projectId: sandbox.credentials.fcm.serviceAccount.project_id,
      httpAgent: agent,
      credential: { getAccessToken: async () => JSON.parse((await getToken()).body) },
    },
    `test ${Math.random()}`,
  );
  messaging = getMessaging(app);
});

afterEach(async () => {
  await deleteApp(app);
  await sandbox.reset();
});

afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

/** Redirects connections to the sandbox: Google's hosts are fixed in the library. */
function createRedirectingAgent(): Agent {
  const { host, port } = sandbox.credentials.fcm;
  const { ca } = sandbox.credentials;
  const created = new Agent({ keepAlive: true });
  const create = created.createConnection.bind(created);
  created.createConnection = (options, callback) =>
    create({ ...options, host, port, ca, servername: 'localhost' } as RequestOptions, callback);
  return created;
}

/** Requests an access token as a service account does (RFC 7523). */
function getToken(claims: object = {}): Promise<{ status: number; body: string }> {
  const account = sandbox.credentials.fcm.serviceAccount;
  const now = Math.floor(Date.now() / 1_000);
  const { client_email: iss, token_uri: aud } = account;
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const all = { iss, aud, scope: SCOPE, iat: now, exp: now + 3_600, ...claims };
  const signed = `${part({ alg: 'RS256', typ: 'JWT' })}.${part(all)}`;
  const signature = createSign('sha256').update(signed).sign(account.private_key, 'base64url');
  const grant = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
  const form = new URLSearchParams({ grant_type: grant, assertion: `${signed}.${signature}` });
  return new Promise((resolve, reject) => {
    const clientRequest = request(aud, { method: 'POST', agent }, async (response) => {
      resolve({ status: response.statusCode ?? 0, body: await text(response) });
    });
    clientRequest.once('error', reject).end(String(form));
  });
}

const message: Message = {
  token: TOKEN,
  data: { payload: '{"n": 1.0}', _pushyId: 'p1' },
  android: { priority: 'high', ttl: 60_000, collapseKey: 'c' },
};

/** Sends with the library without its retries. @returns the error code, or `sent` */
async function sendAndGetCode(sent: Message = message): Promise<string> {
  const handler = Reflect.get(messaging, 'messagingRequestHandler') ?? {};
  Reflect.set(Reflect.get(handler, 'httpClient') ?? {}, 'retry', undefined);
  try {
    await messaging.send(sent);
    return 'sent';
  } catch (error) {
    return String((error as { code?: unknown }).code);
  }
}

describe('a message by firebase-admin', () => {
  test('is accepted and logged', async () => {
    expect(await messaging.send(message)).toMatch(/^projects\/carillon-sandbox\/messages\//);
    const [entry] = await sandbox.received(`channel=fcm&to=${TOKEN}`);
    expect(entry).toMatchObject({ push: 'p1', status: 200, payload: { data: message.data } });
    expect(entry?.payload).toMatchObject({ android: { ttl: '60s', collapse_key: 'c' } });
  });

  test.each<[string, Partial<Message>]>([
    ['too big', { data: { payload: 'x'.repeat(4_097) } }],
    ['with a reserved key', { data: { from: 'me' } }],
  ])('is rejected when %s', async (_, overrides) => {
    expect(await sendAndGetCode({ ...message, ...overrides } as Message)).toBe(
      'messaging/invalid-argument',
    );
  });
});

describe('an access token', () => {
  test.each<[string, object]>([
    ['for another account', { iss: 'a@b' }],
    ['for another audience', { aud: 'https://example.com/token' }],
    ['that is too long', { exp: Math.floor(Date.now() / 1_000) + 7_200 }],
    ['for nothing', { scope: 'https://www.googleapis.com/auth/drive' }],
  ])('is rejected %s', async (_, claims) => {
    expect((await getToken(claims)).status).toBe(400);
  });
});

test('HTTP/2 is supported too', async () => {
  const { access_token } = JSON.parse((await getToken()).body);
  const { host, port, serviceAccount } = sandbox.credentials.fcm;
  const client = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
  const stream = client.request({
    ':method': 'POST',
    ':path': `/v1/projects/${serviceAccount.project_id}/messages:send`,
    authorization: `Bearer ${access_token}`,
  });
  stream.end(JSON.stringify({ message: { token: TOKEN, data: { a: 1 } } }));
  const [headers] = await once(stream, 'response');
  expect([headers[':status'], await text(stream)]).toEqual([
    400,
    expect.stringContaining('data.a'),
  ]);
  client.close();
  await once(client, 'close');
});
