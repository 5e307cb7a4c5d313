import { connect } from 'node:http2';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { until } from '../../../test/support/until.ts';
import { createSandbox, type Sandbox } from '../../sandbox/src/sandbox.ts';
import { carillon, type Ended } from './carillon.ts';
import { type Edge, startEdge } from './edge-under-test.ts';

const ANY = { host: '127.0.0.1', port: 0 };

let sandbox: Sandbox;
let edge: Edge;
let stop: AbortController;
let lines: string[];

beforeAll(async () => {
  const files = temporaryFolder();
  sandbox = await createSandbox({ control: ANY, apns: ANY, fcm: ANY, webPush: ANY, files });
});

beforeEach(async () => {
  edge = await startEdge();
  stop = new AbortController();
  lines = [];
});

afterEach(() => edge.stop());
afterAll(() => sandbox.stop());

/** Begins a simulation; resolves once its devices are there. */
async function simulate(...args: string[]): Promise<{ ended: Promise<Ended> }> {
  const ended = carillon(['simulate', '--json', '--app', 'a1', ...args], {
    env: { ...edge.env, CARILLON_SANDBOX: sandbox.control },
    signal: stop.signal,
    onOut: (text) => lines.push(...text.trimEnd().split('\n')),
  });
  await until(() => lines.some((line) => line.includes('"connected"')));
  return { ended };
}

function registered(): Record<string, unknown> {
  return JSON.parse(edge.requests[0]?.body ?? '{}');
}

/** The payload is what matters here, so every request is answered as accepted. */
async function send(channel: 'apns' | 'fcm' | 'web-push', path: string, body: string) {
  await fetch(`${sandbox.control}/scripts/${channel}/*`, {
    method: 'PUT',
    body: JSON.stringify({ answers: [{ status: 200 }] }),
  });
  const { host, port } = sandbox.credentials[channel === 'web-push' ? 'webPush' : channel];
  const session = connect(`https://${host}:${port}`, { ca: sandbox.credentials.ca });
  const stream = session.request({
    ':method': 'POST',
    ':path': path,
    'x-carillon-push': 'p1',
  });
  stream.end(body);
  await new Promise((resolve) => stream.resume().once('close', resolve));
  await new Promise((resolve) => session.close(() => resolve(undefined)));
}

async function pushLine(): Promise<string> {
  const line = await until(() => lines.find((one) => one.includes('"push"')));
  stop.abort();
  return line;
}

describe('a simulated device of a provider', () => {
  test('ios registers with its token and prints what comes', async () => {
    const { ended } = await simulate('--platform', 'ios');
    const { pushToken, ...rest } = registered();
    expect(rest).toMatchObject({
      appId: 'a1',
      platform: 'ios',
      pushEnvironment: 'development',
      pushBundle: 'com.example.carillon',
    });
    expect(pushToken).toMatch(/^[0-9a-f]{64}$/);
    await send('apns', `/3/device/${pushToken}`, '{"n":12345678901234567890,"_pushyId":"p1"}');
    const start =
      '{"event":"push","token":"t1","id":"p1","payload":{"n":12345678901234567890,"_pushyId":"p1"},';
    expect((await pushLine()).startsWith(start)).toBe(true);
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('android keeps its link, and --fcm gives it a token too', async () => {
    const { ended } = await simulate('--platform', 'android', '--fcm');
    const { fcmToken } = registered();
    const data = { payload: '{"n":1.0}', _pushyId: 'p1' };
    const body = JSON.stringify({ message: { token: fcmToken, data } });
    await send('fcm', '/v1/projects/any/messages:send', body);
    expect(await pushLine()).toContain('"id":"p1","payload":{"n":1.0},');
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('web registers with a subscription', async () => {
    const { ended } = await simulate('--platform', 'web');
    const { endpoint } = registered().subscription as { endpoint: string };
    await send('web-push', new URL(endpoint).pathname, '');
    expect(await pushLine()).toContain('"id":"p1","payload":null,');
    expect(await ended).toMatchObject({ code: 0 });
  });

  test('--fcm is for android', async () => {
    const ended = await carillon(['simulate', '--app', 'a1', '--platform', 'ios', '--fcm'], {
      env: edge.env,
    });
    expect(ended.code).toBe(2);
  });
});
