import { createSign } from 'node:crypto';
import { once } from 'node:events';
import { type ClientHttp2Session, connect, type IncomingHttpHeaders } from 'node:http2';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startSandbox, type UnderTest } from './sandbox-under-test.ts';

const TOKEN = 'ab'.repeat(32);

let sandbox: UnderTest;
const sessions: ClientHttp2Session[] = [];

beforeAll(async () => {
  sandbox = await startSandbox();
});

afterEach(async () => {
  for (const session of sessions.splice(0)) session.destroy();
  await sandbox.reset();
});

afterAll(() => sandbox.stop());

/** A client that knows nothing of retries. */
function open(): ClientHttp2Session {
  const { host, port } = sandbox.credentials.apns;
  const session = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
  sessions.push(session.on('error', () => undefined));
  return session;
}

function bearer(): string {
  const { key, keyId, teamId } = sandbox.credentials.apns;
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const iat = Math.floor(Date.now() / 1_000);
  const signed = `${part({ alg: 'ES256', kid: keyId })}.${part({ iss: teamId, iat })}`;
  const signer = createSign('sha256').update(signed);
  return `bearer ${signed}.${signer.sign({ key, dsaEncoding: 'ieee-p1363' }, 'base64url')}`;
}

/** Sends a push and gives its status; undefined when the stream ends without an answer. */
function send(session: ClientHttp2Session, push = 'p'): Promise<number | undefined> {
  const stream = session.request({
    ':method': 'POST',
    ':path': `/3/device/${TOKEN}`,
    authorization: bearer(),
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

function setServer(change: object): Promise<unknown> {
  return sandbox.call('PUT', '/servers/apns', change);
}

describe('a server', () => {
  test('that says GOAWAY answers what is under way, then closes', async () => {
    await setServer({ goawayEvery: 20 });
    const session = open();
    const closed = once(session, 'close');
    const wentAway = once(session, 'goaway');
    const statuses = await Promise.all(Array.from({ length: 20 }, () => send(session)));
    expect(statuses).toEqual(Array(20).fill(200));
    await Promise.all([wentAway, closed]);
    expect(await send(open())).toBe(200);
  });

  test('that limits streams says so, also on connections that are there', async () => {
    const session = open();
    await send(session);
    expect(session.remoteSettings.maxConcurrentStreams).toBe(1_000);
    await setServer({ streamLimit: 7 });
    await until(() => session.remoteSettings.maxConcurrentStreams === 7);
  });

  test('that drops cuts each N-th request off', async () => {
    await setServer({ dropEvery: 2 });
    const session = open();
    expect([await send(session), await send(session)]).toEqual([200, undefined]);
    expect(session.destroyed).toBe(true);
  });

  test('that is a black hole takes everything and answers nothing', async () => {
    await setServer({ blackHole: true });
    const session = open();
    const answered = send(session);
    await until(async () => (await sandbox.received()).length === 1);
    session.destroy();
    expect(await answered).toBeUndefined();
    expect(await sandbox.received()).toMatchObject([{ status: null }]);
  });

  test('that refuses closes connections, and is as usual after DELETE /servers', async () => {
    await setServer({ refuse: true });
    expect(await send(open())).toBeUndefined();
    await sandbox.call('DELETE', '/servers');
    expect(await send(open())).toBe(200);
  });

  test('that is slow answers after that time', async () => {
    await setServer({ delayMs: 150 });
    const begun = performance.now();
    expect(await send(open())).toBe(200);
    expect(performance.now() - begun).toBeGreaterThan(145);
  });

  test('knows no other conduct', async () => {
    await expect(setServer({ goAwayEvery: 1 })).rejects.toThrow('400');
  });
});

describe('what arrived', () => {
  test('is counted, with what was accepted twice', async () => {
    const session = open();
    for (const push of ['a', 'a', 'a', 'b']) await send(session, push);
    expect(await sandbox.call('GET', '/counts')).toMatchObject({
      requests: 4,
      accepted: 4,
      connections: 1,
      byChannel: { apns: { statuses: { 200: 4 } }, fcm: { requests: 0 } },
      doubles: 2,
      doubled: [{ push: 'a', to: TOKEN, times: 3 }],
    });
  });

  test('is told by pages', async () => {
    const session = open();
    for (const push of ['a', 'b', 'c']) await send(session, push);
    const [first] = await sandbox.received('limit=1');
    const rest = await sandbox.received(`after=${first?.n}`);
    expect(rest.map(({ push }) => push)).toEqual(['b', 'c']);
    expect(await sandbox.received('push=c')).toHaveLength(1);
  });

  test('is told as it comes', async () => {
    const leave = new AbortController();
    const answer = await fetch(`${sandbox.control}/watch?to=${TOKEN}`, { signal: leave.signal });
    let heard = '';
    const reading = (async () => {
      for await (const chunk of answer.body ?? []) heard += Buffer.from(chunk).toString();
    })().catch(() => undefined);
    await send(open(), 'seen');
    await until(() => /^id: \d+\ndata: \{.*"push":"seen".*\}\n\n/m.test(heard));
    leave.abort();
    await reading;
  });
});
