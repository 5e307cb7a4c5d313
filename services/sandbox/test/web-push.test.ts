import { Agent, request } from 'node:https';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import webPush from 'web-push';
import { startSandbox, type UnderTest } from './sandbox-under-test.ts';

const keys = webPush.generateVAPIDKeys();
const otherKeys = webPush.generateVAPIDKeys();

let sandbox: UnderTest;
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

async function newBrowser(body?: object): Promise<Browser> {
  const made = await sandbox.call('POST', '/web-push/subscriptions', body);
  const { endpoint, key, auth } = made as { endpoint: string; key: string; auth: string };
  return { endpoint, keys: { p256dh: key, auth } };
}

/** Sends by the library; gives the status, also of a refusal. */
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
  test('is taken, decrypted and shown as it was', async () => {
    const browser = await newBrowser();
    const payload = '{"n": 12345678901234567890,\n"_pushyId":"p1"}';
    const { status, headers } = await send(browser, payload, { topic: 't', urgency: 'high' });
    expect([status, headers.location]).toEqual([201, expect.stringContaining('/m/')]);
    const text = await (await fetch(`${sandbox.control}/received`)).text();
    expect(text).toContain('"payload":{"n": 12345678901234567890, "_pushyId":"p1"}');
    const [seen] = await sandbox.received(`to=${encodeURIComponent(browser.endpoint)}`);
    expect(seen).toMatchObject({ channel: 'web-push', push: 'p1', status: 201, acked: 100 });
    expect(seen?.headers).toMatchObject({ topic: 't', urgency: 'high', ttl: '2419200' });
  });

  test('without a payload is taken too', async () => {
    expect(await send(await newBrowser(), null)).toMatchObject({ status: 201 });
    expect(await sandbox.received()).toMatchObject([{ payload: null, push: null, acked: 100 }]);
  });

  test('that is encrypted for another browser is taken, and not decrypted', async () => {
    const { endpoint } = await newBrowser();
    const { keys: wrong } = await newBrowser();
    expect(await send({ endpoint, keys: wrong }, '{}')).toMatchObject({ status: 201 });
    expect(await sandbox.received()).toMatchObject([{ payload: null, acked: 101 }]);
  });
});

describe('a push is refused', () => {
  test('404 for an unknown subscription, 410 for one that has ended', async () => {
    const browser = await newBrowser();
    expect(await send({ ...browser, endpoint: `${browser.endpoint}x` }, '')).toMatchObject({
      status: 404,
    });
    await sandbox.call('DELETE', `/web-push/subscriptions/${lastSegment(browser)}`);
    expect(await send(browser, '{}')).toMatchObject({ status: 410 });
  });

  test('403 for another key than that of the subscription', async () => {
    const browser = await newBrowser({ applicationServerKey: otherKeys.publicKey });
    expect(await send(browser, '{}')).toMatchObject({ status: 403 });
    const vapidDetails = { subject: 'mailto:a@example.com', ...otherKeys };
    expect(await send(browser, '{}', { vapidDetails })).toMatchObject({ status: 201 });
  });

  test.each<[string, number, () => Headers]>([
    ['no VAPID', 401, () => ({ Authorization: undefined })],
    ['another audience', 403, () => vapid('https://127.0.0.1:1', 3_600)],
    ['an expiry that is past', 403, () => vapid(origin(), -10)],
    ['a signature of another key', 403, tampered],
    ['a payload over 4,096 bytes', 413, () => ({})],
    ['an unknown urgency', 400, () => ({ Urgency: 'soon' })],
    ['a long topic', 400, () => ({ Topic: 'x'.repeat(33) })],
    ['a topic of other characters', 400, () => ({ Topic: 'a b' })],
    ['no TTL', 400, () => ({ TTL: undefined })],
    ['another encoding', 400, () => ({ 'Content-Encoding': 'gzip' })],
  ])('for %s: %i', async (_, status, headers) => {
    const payload = status === 413 ? 'x'.repeat(4_000) : '{}';
    expect(await sendWith(await newBrowser(), payload, headers())).toBe(status);
  });

  function tampered(): Headers {
    const { Authorization = '' } = vapid(origin(), 3_600);
    return { Authorization: Authorization.replace(keys.publicKey, otherKeys.publicKey) };
  }
});

type Headers = Record<string, string | undefined>;

function origin(): string {
  const { host, port } = sandbox.credentials.webPush;
  return `https://${host}:${port}`;
}

/** The header that says who pushes, for an audience and for so long. */
function vapid(audience: string, seconds: number): Headers {
  const { publicKey, privateKey } = keys;
  const expiry = Math.floor(Date.now() / 1_000) + seconds;
  const subject = 'mailto:a@example.com';
  const made = webPush.getVapidHeaders(
    audience,
    subject,
    publicKey,
    privateKey,
    'aes128gcm',
    expiry,
  );
  return { Authorization: made.Authorization };
}

/** Sends what the library has made, with other headers than the library would let through. */
async function sendWith(browser: Browser, payload: string, other: Headers): Promise<number> {
  const vapidDetails = { subject: 'mailto:a@example.com', ...keys };
  const made = webPush.generateRequestDetails(browser, payload, { vapidDetails });
  const headers = Object.entries({ ...(made.headers as Headers), ...other }).filter(
    (header): header is [string, string] => header[1] !== undefined,
  );
  return new Promise((resolve, reject) => {
    const options = { method: 'POST', agent, headers: Object.fromEntries(headers) };
    const sent = request(made.endpoint, options, (response) => {
      response.resume().once('end', () => resolve(response.statusCode ?? 0));
    });
    sent.once('error', reject).end(made.body);
  });
}

describe('scripts and conduct', () => {
  test('a status by its number, with headers', async () => {
    const browser = await newBrowser();
    const headers = { 'retry-after': '7' };
    await sandbox.script('web-push', lastSegment(browser), [{ as: '429', headers }]);
    expect(await send(browser, '{}')).toMatchObject({ status: 429, headers });
  });

  test('a redirect, a drop, and as usual again', async () => {
    const browser = await newBrowser();
    const answers = [{ do: 'redirect' }, { do: 'drop' }];
    await sandbox.script('web-push', lastSegment(browser), answers, true);
    expect(await send(browser, '{}')).toMatchObject({ status: 307 });
    await expect(send(browser, '{}')).rejects.toThrow();
    expect(await send(browser, '{}')).toMatchObject({ status: 201 });
    const statuses = (await sandbox.received()).map(({ status }) => status);
    expect(statuses).toEqual([307, null, 201]);
  });

  test('a body without an end, fast or slow', async () => {
    const browser = await newBrowser();
    await sandbox.script('web-push', lastSegment(browser), [{ do: 'flood' }, { do: 'drip' }]);
    expect(await firstBytes(browser.endpoint)).toBeGreaterThan(1_000);
    expect(await firstBytes(browser.endpoint)).toBe(1);
  });

  test('a refused or expired credential', async () => {
    const browser = await newBrowser();
    await sandbox.call('PUT', '/servers/web-push', { refuseCredential: true });
    expect(await send(browser, '{}')).toMatchObject({ status: 403 });
    await sandbox.call('DELETE', '/servers');
    const cached = vapid(origin(), 3_600);
    expect(await sendWith(browser, '{}', cached)).toBe(201);
    await sandbox.call('PUT', '/servers/web-push', { expireTokens: true });
    expect(await sendWith(browser, '{}', cached)).toBe(403);
    expect(await send(browser, '{}')).toMatchObject({ status: 201 });
  });
});

/** How many bytes the first piece of an answer's body has; then leaves. */
async function firstBytes(url: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: 'POST', agent }, (response) => {
      response.once('data', (bytes: Buffer) => {
        resolve(bytes.length);
        sent.destroy();
      });
    });
    sent.on('error', reject).end();
  });
}
