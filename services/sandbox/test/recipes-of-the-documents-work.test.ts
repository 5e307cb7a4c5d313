import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createApnsClient, TOKEN } from './apns-client.ts';
import { type SandboxUnderTest, startSandbox } from './sandbox-under-test.ts';

const PAGE = new URL('../../../docs/use/sandbox.md', import.meta.url);
const RECIPE = /^(\d+)\. (?:(?!^\d+\. )[\s\S])*?```sh\n([\s\S]*?)```/gm;
const PUSH = 'push1';

let sandbox: SandboxUnderTest;
let apns: ReturnType<typeof createApnsClient>;
let agent: Agent;
const recipes = new Map<number, string>();
beforeAll(async () => {
  sandbox = await startSandbox();
  apns = createApnsClient(sandbox);
  agent = new Agent({ ca: sandbox.credentials.ca });
  for (const [, number, commands = ''] of readFileSync(PAGE, 'utf8').matchAll(RECIPE))
    recipes.set(Number(number), commands);
});
afterEach(async () => {
  apns.closeSessions();
  await sandbox.reset();
});
afterAll(async () => {
  agent.destroy();
  await sandbox.stop();
});

/** Executes a recipe's commands. @returns what they print, and the endpoint of recipe 4 @throws when one fails */
async function run(number: number): Promise<string> {
  const commands = recipes.get(number) ?? 'false';
  const script = `set -euo pipefail
    curl() { command curl -sS --fail-with-body "$@"; }
    ${commands.trim()}
    printf '\\n%s' "\${ENDPOINT-}"`;
  const env = { ...process.env, SANDBOX: sandbox.control, TOKEN, PUSH };
  const bash = spawn('bash', ['-c', script], { env, stdio: ['ignore', 'pipe', 'inherit'] });
  const [printed, [code]] = await Promise.all([text(bash.stdout), once(bash, 'close')]);
  expect({ number, printed, code }).toMatchObject({ code: 0 });
  return printed;
}

/** Posts without a credential, which the sandbox refuses with 401 if no script gives the response. */
async function post(url: string, body = ''): Promise<number | undefined> {
  const sent = request(url, { method: 'POST', agent }).end(body);
  const [response] = await once(sent, 'response');
  response.resume();
  return response.statusCode;
}

function postToGoogle(): Promise<number | undefined> {
  const { host, port, serviceAccount } = sandbox.credentials.fcm;
  const path = `/v1/projects/${serviceAccount.project_id}/messages:send`;
  return post(`https://${host}:${port}${path}`, '{"message":{"token":"t"}}');
}

const send = () => apns.send(apns.openSession(), PUSH);

test('there are ten', () => {
  expect([...recipes.keys()]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
});

test('1: the app was uninstalled, for each further request', async () => {
  await run(1);
  expect([await send(), await send()]).toEqual([410, 410]);
});

test('2: Google is unavailable twice', async () => {
  await run(2);
  expect([await postToGoogle(), await postToGoogle(), await postToGoogle()]).toEqual([
    503, 503, 401,
  ]);
});

test('3: a response of its own', async () => {
  await run(3);
  const response = await apns.request(apns.openSession());
  expect(response).toMatchObject({ ':status': 429, 'retry-after': '3' });
  expect(await send()).toBe(200);
});

test('4: a subscription that ends', async () => {
  const endpoint = (await run(4)).split('\n').at(-1) ?? '';
  expect(await post(endpoint)).toBe(410);
});

test('5: a response that is lost, and one that is late', async () => {
  await run(5);
  expect([await send(), await send()]).toEqual([undefined, 200]);
});

test('6: a server that allows little', async () => {
  const { streamLimit, ...others } = JSON.parse(await run(6)) as Record<string, unknown>;
  expect(others).toMatchObject({ delayMs: 200, goawayEvery: 100, dropEvery: 250 });
  const session = apns.openSession();
  expect(await apns.send(session)).toBe(200);
  expect(session.remoteSettings.maxConcurrentStreams).toBe(streamLimit);
});

test('7: an outage', async () => {
  await run(7);
  await expect(postToGoogle()).rejects.toThrow();
  const { host, port } = sandbox.credentials.webPush;
  const sent = request(`https://${host}:${port}/wpush/v2/a`, { method: 'POST', agent }).end();
  sent.on('error', () => undefined);
  await until(async () => (await sandbox.received('channel=web-push')).length === 1);
  expect(await sandbox.received()).toMatchObject([{ channel: 'web-push', status: null }]);
  sent.destroy();
});

test('8: a credential that is refused', async () => {
  expect(await run(8)).toContain('"checkContact":true');
  expect(await send()).toBe(403);
});

test('9: the requests of a push, and the counts', async () => {
  await send();
  const [received = '', counts = ''] = (await run(9)).split(/(?<=\})(?=\{"requests")/);
  expect(JSON.parse(received)).toMatchObject({ received: [{ push: PUSH, status: 200 }] });
  expect(JSON.parse(counts)).toMatchObject({ requests: 1, accepted: 1, duplicates: 0 });
});

test('10: all as before', async () => {
  await run(1);
  await run(8);
  await send();
  await run(10);
  expect(await sandbox.call('GET', '/counts')).toMatchObject({ requests: 0 });
  expect(await send()).toBe(200);
});
