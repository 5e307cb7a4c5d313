import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { freePort } from '../../presence/test/start-server.ts';
import { newWebhookSecret, signWebhook } from '../src/signature.ts';

const SECRET = newWebhookSecret();
const PAGE = new URL('../../../docs/use/webhooks.md', import.meta.url);
/** Has the library that the page installs. */
const FOLDER = new URL('..', import.meta.url);
const BODY = JSON.stringify({
  type: 'events',
  app: 'a'.repeat(24),
  events: [{ id: 'push1.0.1', type: 'recipient.delivered', data: { push: 'push1' } }],
});

let port: number;
let receiver: ChildProcess;
let printed = '';
beforeAll(async () => {
  port = await freePort();
  const code = readFileSync(PAGE, 'utf8').match(/^```js\n([\s\S]*?)^```/m)?.[1] ?? '';
  expect(code).toContain('.listen(8080)');
  const program = code.replace('.listen(8080)', `.listen(${port}, '127.0.0.1')`);
  receiver = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: FOLDER,
    env: { ...process.env, WEBHOOK_SECRET: SECRET },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  receiver.stdout?.on('data', (data) => {
    printed += data;
  });
  await until(isListening, { what: 'the receiver listens' });
});
afterAll(async () => {
  if (receiver === undefined || receiver.exitCode !== null) return;
  receiver.kill();
  await once(receiver, 'exit');
});

/** Posts a body and returns the status. */
async function post(body: string, headers: Record<string, string>): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${port}/`, { method: 'POST', body, headers });
  await response.arrayBuffer();
  return response.status;
}

const isListening = () =>
  post('{}', {}).then(
    () => true,
    () => false,
  );

test('a signed request is accepted, and an event that repeats is handled once', async () => {
  const headers = signWebhook([SECRET], BODY, Date.now());
  expect([await post(BODY, headers), await post(BODY, headers)]).toEqual([204, 204]);
  await until(() => printed.includes('push1'));
  expect(printed.match(/recipient\.delivered/g)).toHaveLength(1);
});

test('a forged request is refused', async () => {
  const headers = signWebhook([newWebhookSecret()], BODY, Date.now());
  expect(await post(BODY, headers)).toBe(400);
  const own = signWebhook([SECRET], BODY, Date.now());
  expect(await post(BODY.replace('push1.0.1', 'push2.0.1'), own)).toBe(400);
});
