import { Agent, request } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import webPush from 'web-push';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const keys = webPush.generateVAPIDKeys();
const otherKeys = webPush.generateVAPIDKeys();

let sandbox: SandboxUnderTest;
let agent: Agent;

beforeAll(async () => {
  sandbox = await startSandbox();
  agent = new Agent({ ca: sandbox.credentials.ca, keepAlive: true });
});

afterEach(() => sandbox.reset());

afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

interface Browser {
  endpoint: string;
  keys: { p256dh: string; auth: string };
}

async function createBrowser(body?: object): Promise<Browser> {
  const created = await sandbox.call('POST', '/web-push/subscriptions', body);
  const { endpoint, key, auth } = created as { endpoint: string; key: string; auth: string };
  return { endpoint, keys: { p256dh: key, auth } };
}

/** Sends with the library. @returns the status, also of an error */
async function send(
  browser: Browser,
  payload: string | null,
  options: webPush.RequestOptions = {},
): Promise<{ status: number; headers: webPush.Headers }> {
  const vapidDetails = { subject: 'mailto:a@example.com', ...keys };
  try {
    const { statusCode, headers } = await webPush.sendNotification(browser, payload, {
      agent,
      vapidDetails,
      ...options,
    });
    return { status: statusCode, headers };
  } catch (error) {
    if (!(error instanceof webPush.WebPushError)) throw error;
    return { status: error.statusCode, headers: error.headers as webPush.Headers };
  }
}

function lastSegment({ endpoint }: Browser): string {
  return endpoint.split('/').at(-1) ?? '';
}

describe('a push by the web-push library', () => {
  test('is accepted, decrypted and logged unchanged', async () => {
    const browser = await createBrowser();
    const payload = '{"n": 12345678901234567890,\n"_pushyId":"p1"}';
    const { status, headers } = await send(browser, payload, { topic: 't', urgency: 'high' });
    expect([status, headers.location]).toEqual([201, expect.stringContaining('/m/')]);
    const text = await (await fetch(`${sandbox.control}/received`)).text();
    expect(text).toContain('"payload":{"n": 12345678901234567890, "_pushyId":"p1"}');
    const [entry] = await sandbox.received(`to=${encodeURIComponent(browser.endpoint)}`);
    expect(entry).toMatchObject({ channel: 'web-push', push: 'p1', status: 201, acked: 100 });
    expect(entry?.headers).toMatchObject({ topic: 't', urgency: 'high', ttl: '2419200' });
  });

  test('without a payload is accepted', async () => {
    expect(await send(await createBrowser(), null)).toMatchObject({ status: 201 });
    expect(await sandbox.received()).toMatchObject([{ payload: null, push: null, acked: 100 }]);
  });

  test('encrypted for another browser is accepted and logged without its payload', async () => {
    const { endpoint } = await createBrowser();
    const { keys: wrong } = await createBrowser();
    expect(await send({ endpoint, keys: wrong }, '{}')).toMatchObject({ status: 201 });
    expect(await sandbox.received()).toMatchObject([{ payload: null, acked: 101 }]);
  });
});

describe('a push is rejected', () => {
  test('with 404 for an unknown subscription, with 410 for an ended one', async () => {
    const browser = await createBrowser();
    expect(await send({ ...browser, endpoint: `${browser.endpoint}x` }, '')).toMatchObject({
      status: 404,
    });
    await sandbox.call('DELETE', `/web-push/subscriptions/${lastSegment(browser)}`);
    expect(await send(browser, '{}')).toMatchObject({ status: 410 });
  });

  test('with 403 for a VAPID key other than that of the subscription', async () => {
    const browser = await createBrowser({ applicationServerKey: otherKeys.publicKey });
    expect(await send(browser, '{}')).toMatchObject({ status: 403 });
    const vapidDetails = { subject: 'mailto:a@example.com', ...otherKeys };
    expect(await send(browser, '{}', { vapidDetails })).toMatchObject({ status: 201 });
  });

  test.each<[string, number, () => Headers]>([
    ['no VAPID', 401, () => ({ Authorization: undefined })],
    ['another audience', 403, () => createVapidHeaders('https://127.0.0.1:1', 3_600)],
    ['an expiry that is past', 403, () => createVapidHeaders(origin(), -10)],
    ['a signature with another key', 403, createTamperedHeaders],
    ['a payload over 4,096 bytes', 413, () => ({})],
    ['an unknown urgency', 400, () => ({ Urgency: 'soon' })],
    ['a long topic', 400, () => ({ Topic: 'x'.repeat(33) })],
    ['a topic of other characters', 400, () => ({ Topic: 'a b' })],
    ['no TTL', 400, () => ({ TTL: undefined })],
    ['another encoding', 400, () => ({ 'Content-Encoding': 'gzip' })],
  ])('for %s: %i', async (_, status, headers) => {
    const payload = status === 413 ? 'x'.repeat(4_000) : '{}';
    expect(await sendWith(await createBrowser(), payload, headers())).toBe(status);
  });

  function createTamperedHeaders(): Headers {
    const { Authorization = '' } = createVapidHeaders(origin(), 3_600);
    return { Authorization: Authorization.replace(keys.publicKey, otherKeys.publicKey) };
  }
});

type Headers = Record<string, string | undefined>;

function origin(): string {
  const { host, port } = sandbox.credentials.webPush;
  return `https://${host}:${port}`;
}

/** Creates a VAPID header for an audience and a lifetime. */
function createVapidHeaders(audience: string, seconds: number): Headers {
  const { publicKey, privateKey } = keys;
  const expiry = Math.floor(Date.now() / 1_000) + seconds;
  const subject = 'mailto:a@example.com';
  const vapidHeaders = webPush.getVapidHeaders(
    audience,
    subject,
    publicKey,
    privateKey,
    'aes128gcm',
    expiry,
  );
  return { Authorization: vapidHeaders.Authorization };
}

/** Sends the library's request with headers that the library would reject. */
async function sendWith(browser: Browser, payload: string, overrides: Headers): Promise<number> {
  const vapidDetails = { subject: 'mailto:a@example.com', ...keys };
  const requestDetails = webPush.generateRequestDetails(browser, payload, { vapidDetails });
  const headers = Object.entries({ ...(requestDetails.headers as Headers), ...overrides }).filter(
    (header): header is [string, string] => header[1] !== undefined,
  );
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', agent, headers: Object.fromEntries(headers) };
    const clientRequest = request(requestDetails.endpoint, options, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0));
    });
    clientRequest.once('error', reject).end(requestDetails.body);
  });
}

describe('scripts and faults', () => {
  test('reject or expire the credential', async () => {
    const browser = await createBrowser();
    await sandbox.call('PUT', '/servers/web-push', { refuseCredential: true });
    expect(await send(browser, '{}')).toMatchObject({ status: 403 });
    await sandbox.call('DELETE', '/servers');
    const cachedHeaders = createVapidHeaders(origin(), 3_600);
    expect(await sendWith(browser, '{}', cachedHeaders)).toBe(201);
    await sandbox.call('PUT', '/servers/web-push', { expireTokens: true });
    expect(await sendWith(browser, '{}', cachedHeaders)).toBe(403);
    expect(await send(browser, '{}')).toMatchObject({ status: 201 });
  });
});
