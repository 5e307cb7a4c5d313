import { connect } from 'node:http2';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { until } from '../../../test/support/until.ts';
import { createSandbox, type Sandbox } from '../../sandbox/src/sandbox.ts';
import { type CliResult, runCarillon } from './run-carillon.ts';
import { type ScriptedEdge, startScriptedEdge } from './scripted-edge.ts';

const ANY_PORT = { host: '127.0.0.1', port: 0 };

let sandbox: Sandbox;
let edge: ScriptedEdge;
let stop: AbortController;
let lines: string[];

beforeAll(async () => {
  const files = createTemporaryFolder();
  sandbox = await createSandbox({
    control: ANY_PORT,
    apns: ANY_PORT,
    fcm: ANY_PORT,
    webPush: ANY_PORT,
    files,
  });
});

beforeEach(async () => {
  edge = await startScriptedEdge();
  stop = new AbortController();
  lines = [];
});

afterEach(() => edge.stop());
afterAll(() => sandbox.stop());

/** Starts a simulation; resolves once its devices are connected. */
async function simulate(...args: string[]): Promise<{ result: Promise<CliResult> }> {
  const result = runCarillon(['simulate', '--json', '--app', 'a1', ...args], {
    env: { ...edge.env, CARILLON_SANDBOX: sandbox.control },
    signal: stop.signal,
    onOut: (text) => lines.push(...text.trimEnd().split('\n')),
  });
  await until(() => lines.some((line) => line.includes('"connected"')));
  return { result };
}

function readRegistration(): Record<string, unknown> {
  return JSON.parse(edge.requests[0]?.body ?? '{}');
}

/** Sends a request to the sandbox, which is set to accept every request: the tests check only the payload. */
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

async function waitForPushLine(): Promise<string> {
  const line = await until(() => lines.find((line) => line.includes('"push"')));
  stop.abort();
  return line;
}

describe('a simulated device', () => {
  test('on ios registers with an APNs token and prints its pushes', async () => {
    const { result } = await simulate('--platform', 'ios');
    const { pushToken, ...rest } = readRegistration();
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
    expect((await waitForPushLine()).startsWith(start)).toBe(true);
    expect(await result).toMatchObject({ code: 0 });
  });

  test('on android with --fcm connects over MQTT and has an FCM token', async () => {
    const { result } = await simulate('--platform', 'android', '--fcm');
    const { fcmToken } = readRegistration();
    const data = { payload: '{"n":1.0}', _pushyId: 'p1' };
    const body = JSON.stringify({ message: { token: fcmToken, data } });
    await send('fcm', '/v1/projects/any/messages:send', body);
    expect(await waitForPushLine()).toContain('"id":"p1","payload":{"n":1.0},');
    expect(await result).toMatchObject({ code: 0 });
  });

  test('on web registers with a subscription', async () => {
    const { result } = await simulate('--platform', 'web');
    const { endpoint } = readRegistration().subscription as { endpoint: string };
    await send('web-push', new URL(endpoint).pathname, '');
    expect(await waitForPushLine()).toContain('"id":"p1","payload":null,');
    expect(await result).toMatchObject({ code: 0 });
  });

  test('rejects --fcm on other platforms than android', async () => {
    const result = await runCarillon(['simulate', '--app', 'a1', '--platform', 'ios', '--fcm'], {
      env: edge.env,
    });
    expect(result.code).toBe(2);
  });
});
