import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startProcess } from '../support/child-process.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { forStack } from '../support/documents/for-stack.ts';
import { getDeviceInfo, getPushStatus, send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import {
  installPythonPackage,
  type PythonProgram,
  startPython,
} from '../support/with-python/python.ts';

const DEVICE = fileURLToPath(new URL('../support/with-python/device.py', import.meta.url));
/** The SDK connects to port 8883 with any setting, so the stack has the default ports on an address of its own. */
const HOST = '127.0.0.83';

let stack: Stack;
let folder: string;
let sdk: string;
let program: PythonProgram;
let token: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-python-'));
  sdk = join(folder, 'sdk');
  const cwd = join(folder, 'device');
  await mkdir(cwd);
  await installPythonPackage(sdk, 'pushy-python==1.0.12');
  stack = await startStackWithoutLimits({ host: HOST, env: { CARILLON_PORT_BASE: '' } });
  const { api, app, ca = '' } = stack.dev;
  const args = [DEVICE, sdk, api, HOST, app];
  program = startPython(args, { cwd, env: { SSL_CERT_FILE: ca } });
  token = await until(() => lastEvent('token') as string | undefined, { timeoutMs: 20_000 });
}, 360_000);
afterAll(async () => {
  await program?.stop();
  await stack?.stop();
  await rm(folder, { recursive: true, force: true });
});

function lastEvent(name: string): unknown {
  return program.printed.find((line) => name in line)?.[name];
}

test('it registers and connects over TLS', async () => {
  await until(() => lastEvent('connected'));
  const info = await getDeviceInfo(stack, token);
  expect(info.device.platform).toBe('python');
  expect(info.presence.online).toBe(true);
  expect(info.subscriptions).toEqual(['news']);
});

test('its listener gets pushes to it and to its topic, which are then delivered', async () => {
  const data = { message: 'Grüße 👋', list: [1, 2.5, null] };
  const { id } = await send(stack, [token, '/topics/news'], { data });
  await until(() => lastEvent('payload'));
  expect(lastEvent('payload')).toEqual(data);
  await until(async () => (await getPushStatus(stack, id)).pending_devices.length === 0);
});

test('the program of the page prints the message of a push, and the push is delivered', async () => {
  const cwd = join(folder, 'page');
  await mkdir(cwd);
  const code = codeBlock('docs/use/receive/small-machine.md', "Pushy's Python SDK");
  await writeFile(join(cwd, 'device.py'), forStack(code, stack.dev));
  const run = 'import sys; sys.path.append(sys.argv[1]); exec(open("device.py").read())';
  const env = { ...process.env, HOME: cwd, SSL_CERT_FILE: stack.dev.ca };
  const device = startProcess('python3', ['-c', run, sdk], { cwd, env });
  try {
    const registered = await until(() => /^[0-9a-f]{20,}$/m.exec(device.output())?.[0]);
    const { id } = await send(stack, registered, { data: { message: 'Tea is ready' } });
    await until(() => device.output().includes('Tea is ready\n'));
    await untilOutcome(stack, id, [registered], 'delivered');
  } finally {
    device.kill('SIGKILL');
    await device.exited;
  }
});
