import type { ServerResponse } from 'node:http';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { Attempt } from '../../src/deliver/provider.ts';
import { createBrowser } from './browser.ts';
import { type Answering, type PushService, say, startPushService } from './push-service.ts';
import { createPush, createSecret } from './pushes.ts';

const DEADLINE_MS = 400;

const secret = createSecret();
const browser = createBrowser();
let service: PushService;
const timers = new Set<NodeJS.Timeout>();

beforeAll(async () => {
  service = await startPushService(['fcm.googleapis.com']);
});
afterEach(() => {
  for (const timer of timers) clearInterval(timer);
  timers.clear();
  service.received.length = 0;
});
afterAll(() => service?.stop());

async function send(
  endpoint = `https://${service.host}/x`,
): Promise<{ attempt: Attempt; ms: number }> {
  const channel = createWebPush({
    hosts: [service.host],
    ca: service.ca,
    deadlineMs: DEADLINE_MS,
    // Names of vendors that lead into the own network.
    look: (_hostname, _options, callback) => callback(null, [{ address: '127.0.0.1', family: 4 }]),
  });
  const client = channel.connect(secret);
  const startedAt = performance.now();
  const attempt = await client.begin(createPush())(browser.address(endpoint));
  const ms = performance.now() - startedAt;
  await client.close();
  return { attempt, ms };
}

describe('an endpoint that is none of a push service', () => {
  test.each([
    'http://127.0.0.1:PORT/x',
    'https://localhost:PORT/x',
    'https://127.1:9/x',
    'https://0x7f.1/x',
    'https://2130706433/x',
    'https://0177.0.0.1/x',
    'https://[::1]:PORT/x',
    'https://[::ffff:127.0.0.1]:PORT/x',
    'https://[::ffff:7f00:1]/x',
    'https://169.254.169.254/latest/meta-data',
    'https://10.0.0.1/x',
    'https://1.1.1.1/x',
    'https://user@127.0.0.1:PORT/x',
    'https://:password@127.0.0.1:PORT/x',
    'https://fcm.googleapis.com:PORT/x',
    'https://fcm.googleapis.com.evil.example/x',
    'https://evilfcm.googleapis.com/x',
    'https://evilpush.apple.com/x',
    'https://evil.example/#fcm.googleapis.com',
    'https://evil.example\\@fcm.googleapis.com/x',
    'https://fcm.googleapis.com./x',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'not a url',
    '',
  ])('%p is never connected to', async (endpoint) => {
    const links = service.links();
    const { attempt } = await send(endpoint.replace('PORT', service.host.split(':')[1] ?? ''));
    expect(attempt).toMatchObject({ kind: 'rejected', reason: 'endpoint-not-allowed' });
    expect(service.links()).toBe(links);
  });

  test('a vendor’s name that leads into the own network is not connected to', async () => {
    const links = service.links();
    const { attempt } = await send('https://fcm.googleapis.com/fcm/send/x');
    expect(attempt).toEqual({ kind: 'retry', scope: 'line', detail: 'EPRIVATE' });
    expect(service.links()).toBe(links);
  });
});

describe('a push service that is up to something', () => {
  test.each([301, 302, 303, 307, 308])('gets nobody to follow its %i', async (status) => {
    service.answer(say(status, { location: `https://${service.host}/elsewhere` }));
    expect((await send()).attempt).toMatchObject({ reason: 'rejected-by-provider' });
    expect(service.received.map(({ path }) => path)).toEqual(['/x']);
  });

  test('and never stops talking is cut, and its status counts', async () => {
    let written = 0;
    service.answer((_request, response) => {
      response.writeHead(400);
      written = 0;
      const chunk = Buffer.alloc(65_536, 'x');
      const flood = (): void => {
        while (!response.destroyed && response.write(chunk)) written += chunk.length;
      };
      response.on('drain', flood);
      flood();
    });
    const { attempt, ms } = await send();
    expect(attempt).toMatchObject({ kind: 'rejected', reason: 'rejected-by-provider' });
    expect(ms).toBeLessThan(DEADLINE_MS);
    expect(written).toBeLessThan(10_000_000);
  });

  const drip = (response: ServerResponse, bytes: () => void): void => {
    const timer = setInterval(bytes, 20);
    timers.add(timer);
    response.on('close', () => clearInterval(timer));
  };

  test('and drips its answer is cut at the deadline, and its status counts', async () => {
    service.answer((_request, response) => {
      response.writeHead(201).flushHeaders();
      drip(response, () => response.write('x'));
    });
    const { attempt, ms } = await send();
    expect(attempt).toEqual({ kind: 'sent' });
    expect(ms).toBeLessThan(2 * DEADLINE_MS);
  });

  test.each<[string, Answering, string]>([
    ['says nothing', () => undefined, 'ETIMEDOUT'],
    [
      'drips its headers',
      (_request, response) => {
        response.socket?.write('HTTP/1.1 201 Created\r\n');
        drip(response, () => response.socket?.write('x-a: b\r\n'));
      },
      'ETIMEDOUT',
    ],
    [
      'never ends its headers',
      (_request, response) => {
        response.socket?.write(`HTTP/1.1 201 Created\r\nx-a: ${'b'.repeat(100_000)}`);
      },
      'HPE_HEADER_OVERFLOW',
    ],
    [
      'speaks no HTTP',
      (_request, response) => response.socket?.end('hello\r\n\r\n'),
      'HPE_INVALID_CONSTANT',
    ],
    ['hangs up', (_request, response) => response.socket?.destroy(), 'ECONNRESET'],
  ])('and %s only puts itself off', async (_what, answering, detail) => {
    service.answer(answering);
    const { attempt, ms } = await send();
    expect(attempt).toEqual({ kind: 'retry', scope: 'line', detail });
    expect(ms).toBeLessThan(2 * DEADLINE_MS);
  });

  test('and has no certificate of the named authority is not believed', async () => {
    const client = createWebPush({ hosts: [service.host] }).connect(secret);
    const attempt = await client.begin(createPush())(browser.address(`https://${service.host}/x`));
    expect(attempt).toMatchObject({ kind: 'retry', scope: 'line' });
    expect(service.received).toHaveLength(0);
    await client.close();
  });
});
