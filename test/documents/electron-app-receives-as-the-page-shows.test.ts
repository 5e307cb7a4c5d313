import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeAll, expect, test } from '@jest/globals';
import { startProcess, type TestProcess } from '../support/child-process.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { forStack } from '../support/documents/for-stack.ts';
import { send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const ELECTRON = fileURLToPath(
  new URL('../support/official-clients/electron-stand-in.mjs', import.meta.url),
);

let stack: SharedStack;
let app: TestProcess | undefined;
beforeAll(async () => {
  stack = await useSharedStack();
});
afterEach(() => app?.stop());

/** Starts the main process of the page. Returns the token that it prints. */
async function startApp(folder: string, address: string): Promise<string> {
  const code = codeBlock('docs/use/receive/electron.md', 'The main process');
  writeFileSync(join(folder, 'main.cjs'), forStack(code, { ...stack.dev, mqtts: address }));
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: stack.dev.ca };
  const started = startProcess(process.execPath, ['--import', ELECTRON, 'main.cjs'], {
    cwd: folder,
    env,
  });
  app = started;
  return until(() => /device token (\w+)/.exec(started.output())?.[1], {
    what: 'a device token',
  });
}

test.each(['mqtts', 'ws'] as const)(
  'the main process of the page shows a push over %s, and it is delivered',
  async (scheme) => {
    const token = await startApp(createFolder(), stack.dev[scheme] ?? '');
    const { id } = await send(stack, token, { data: { title: 'Tea', message: 'is ready' } });
    await until(() => app?.output().includes('{"title":"Tea","body":"is ready"}'));
    await untilOutcome(stack, id, [token], 'delivered');
  },
);

test('after it was quit it is the same device, and shows what was sent meanwhile', async () => {
  const folder = createFolder();
  const address = stack.dev.mqtts ?? '';
  const token = await startApp(folder, address);
  await app?.stop();
  const { id } = await send(stack, token, { data: { message: 'meanwhile' } });
  expect(await startApp(folder, address)).toBe(token);
  await until(() => app?.output().includes('{"title":"app","body":"meanwhile"}'));
  await untilOutcome(stack, id, [token], 'delivered');
});

/** Makes a folder in which the SDK is installed. */
function createFolder(): string {
  const folder = join(createTemporaryFolder(), 'app');
  mkdirSync(folder);
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}
