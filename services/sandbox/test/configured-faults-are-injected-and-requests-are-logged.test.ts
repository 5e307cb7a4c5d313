import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createApnsClient, TOKEN } from './apns-client.ts';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

let sandbox: SandboxUnderTest;
let client: ReturnType<typeof createApnsClient>;

beforeAll(async () => {
  sandbox = await startSandbox();
  client = createApnsClient(sandbox);
});

afterEach(async () => {
  client.closeSessions();
  await sandbox.reset();
});

afterAll(() => sandbox.stop());

function setFaultConfig(change: object): Promise<unknown> {
  return sandbox.call('PUT', '/servers/apns', change);
}

describe('a server', () => {
  test('that sends GOAWAY responds to requests in progress, then closes', async () => {
    await setFaultConfig({ goawayEvery: 20 });
    const session = client.openSession();
    const closed = once(session, 'close');
    const goawayReceived = once(session, 'goaway');
    const statuses = await Promise.all(Array.from({ length: 20 }, () => client.send(session)));
    expect(statuses).toEqual(Array(20).fill(200));
    await Promise.all([goawayReceived, closed]);
    expect(await client.send(client.openSession())).toBe(200);
  });

  test('that limits streams announces it, also on open connections', async () => {
    const session = client.openSession();
    await client.send(session);
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1_000);
    await setFaultConfig({ streamLimit: 7 });
    await until(() => session.remoteSettings.maxConcurrentStreams === 7);
  });

  test('that is slow responds after the configured time', async () => {
    await setFaultConfig({ delayMs: 150 });
    const startedAt = performance.now();
    expect(await client.send(client.openSession())).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(145);
  });

  test('rejects unknown faults', async () => {
    await expect(setFaultConfig({ goAwayEvery: 1 })).rejects.toThrow('400');
  });
});

describe('the request log', () => {
  test('counts requests and duplicates', async () => {
    const session = client.openSession();
    for (const push of ['a', 'a', 'a', 'b']) await client.send(session, push);
    expect(await sandbox.call('GET', '/counts')).toMatchObject({
      requests: 4,
      accepted: 4,
      connections: 1,
      byChannel: { apns: { statuses: { 200: 4 } }, fcm: { requests: 0 } },
      duplicates: 2,
      duplicatedPushes: [{ push: 'a', to: TOKEN, times: 3 }],
    });
  });

  test('is read in pages', async () => {
    const session = client.openSession();
    for (const push of ['a', 'b', 'c']) await client.send(session, push);
    const [first] = await sandbox.received('limit=1');
    const rest = await sandbox.received(`after=${first?.n}`);
    expect(rest.map(({ push }) => push)).toEqual(['b', 'c']);
    expect(await sandbox.received('push=c')).toHaveLength(1);
  });

  test('streams new entries', async () => {
    const abortController = new AbortController();
    const response = await fetch(`${sandbox.control}/watch?to=${TOKEN}`, {
      signal: abortController.signal,
    });
    let receivedText = '';
    const reading = (async () => {
      for await (const chunk of response.body ?? []) receivedText += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    await client.send(client.openSession(), 'seen');
    await until(() => /^id: \d+\ndata: \{.*"push":"seen".*\}\n\n/m.test(receivedText));
    abortController.abort();
    await reading;
  });
});
