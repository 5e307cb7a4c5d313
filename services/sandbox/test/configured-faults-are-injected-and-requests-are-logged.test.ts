import { createSign } from 'node:crypto';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from 'node:http2';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const TOKEN = 'ab'.repeat(32);

let sandbox: SandboxUnderTest;
const sessions: ClientHttp2Session[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
});

afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  await sandbox.reset();
});

afterAll(() => sandbox.stop());

/** A client without retries. */
function openSession(): ClientHttp2Session {
  const { host, port } = sandbox.credentials.apns;
  const session = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
  sessions.push(session.on('error', () => undefined));
  return session;
}

function createBearerToken(): string {
  const { key, keyId, teamId } = sandbox.credentials.apns;
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const iat = Math.floor(Date.now() / 1_000);
  const signed = `${part({ alg: 'ES256', kid: keyId })}.${part({ iss: teamId, iat })}`;
  const signer = createSign('sha256').update(signed);
  return `bearer ${signed}.${signer.sign({ key, dsaEncoding: 'ieee-p1363' }, 'base64url')}`;
}

/** Sends a push. @returns the status; undefined when the stream ends without a response */
function send(session: ClientHttp2Session, push = 'p'): Promise<number | undefined> {
  const stream = session.request({
    ':method': 'POST',
    ':path': `/3/device/${TOKEN}`,
    authorization: createBearerToken(),
    'apns-topic': 'a.b',
    'apns-push-type': 'alert',
  });
  stream.end(JSON.stringify({ aps: {}, _pushyId: push }));
  return new Promise((resolve) => {
    stream.on('response', (headers: IncomingHttpHeaders) => resolve(Number(headers[':status'])));
    stream.on('error', () => undefined).on('close', () => resolve(undefined));
    stream.resume();
  });
}

function setFaultConfig(change: object): Promise<unknown> {
  return sandbox.call('PUT', '/servers/apns', change);
}

describe('a server', () => {
  test('that sends GOAWAY responds to requests in progress, then closes', async () => {
    await setFaultConfig({ goawayEvery: 20 });
    const session = openSession();
    const closed = once(session, 'close');
    const goawayReceived = once(session, 'goaway');
    const statuses = await Promise.all(Array.from({ length: 20 }, () => send(session)));
    expect(statuses).toEqual(Array(20).fill(200));
    await Promise.all([goawayReceived, closed]);
    expect(await send(openSession())).toBe(200);
  });

  test('that limits streams announces it, also on open connections', async () => {
    const session = openSession();
    await send(session);
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1_000);
    await setFaultConfig({ streamLimit: 7 });
    await until(() => session.remoteSettings.maxConcurrentStreams === 7);
  });

  test('that is slow responds after the configured time', async () => {
    await setFaultConfig({ delayMs: 150 });
    const startedAt = performance.now();
    expect(await send(openSession())).toBe(200);
    expect(performance.now() - startedAt).toBeGreaterThan(145);
  });

  test('rejects unknown faults', async () => {
    await expect(setFaultConfig({ goAwayEvery: 1 })).rejects.toThrow('400');
  });
});

describe('the request log', () => {
  test('counts requests and duplicates', async () => {
    const session = openSession();
    for (const push of ['a', 'a', 'a', 'b']) await send(session, push);
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
    const session = openSession();
    for (const push of ['a', 'b', 'c']) await send(session, push);
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
    await send(openSession(), 'seen');
    await until(() => /^id: \d+\ndata: \{.*"push":"seen".*\}\n\n/m.test(receivedText));
    abortController.abort();
    await reading;
  });
});
