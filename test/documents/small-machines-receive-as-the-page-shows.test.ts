import { readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { startProcess, type TestProcess } from '../support/child-process.ts';
import { codeBlock } from '../support/documents/code-blocks.ts';
import { forStack } from '../support/documents/for-stack.ts';
import { send, untilOutcome } from '../support/end-to-end/pushes.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { ensureMosquitto, ensurePaho } from '../support/gateway/real-clients.ts';
import type { Credentials } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

/** Commands of the programs, and the files that they run. */
const PROGRAMS = {
  Python: ['python3', 'device.py'],
  Node: [process.execPath, 'device.mjs'],
} as const;
const LANGUAGES = ['Python', 'Node'] as const;

let stack: SharedStack;
let paho: string;
let folder: string;
let device: Credentials;
let program: TestProcess | undefined;
beforeAll(async () => {
  [stack, paho] = await Promise.all([useSharedStack(), ensurePaho(), ensureMosquitto()]);
});
beforeEach(async () => {
  folder = createTemporaryFolder();
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const curl = startProcess('sh', ['-c', read('Register')], { cwd: folder });
  expect(await curl.exited).toBe(0);
  device = JSON.parse(readFileSync(join(folder, 'device.json'), 'utf8'));
});
afterEach(() => program?.stop());

const read = (heading: string) =>
  forStack(codeBlock('docs/use/receive/small-machine.md', heading), stack.dev);

function start(language: (typeof LANGUAGES)[number]): void {
  const [command, file] = PROGRAMS[language];
  writeFileSync(join(folder, file), read(language));
  const env = { ...process.env, PYTHONPATH: paho };
  program = startProcess(command, [file], { cwd: folder, env });
}

const untilPrinted = (text: string) =>
  until(() => program?.output().includes(text), { what: `${text} is printed` });

test.each(LANGUAGES)(
  'the %s program of the page prints a push, and it is delivered',
  async (language) => {
    start(language);
    const { id, payload } = await send(stack, device.token);
    await untilPrinted(payload);
    await untilOutcome(stack, id, [device.token], 'delivered');
  },
);

test.each(LANGUAGES)(
  'the %s program of the page prints a push only once that was stored before a crash',
  async (language) => {
    const [stored, next] = [await send(stack, device.token), await send(stack, device.token)];
    storeAsBeforeACrash(stored.id, stored.payload);
    start(language);
    await untilPrinted(next.payload);
    expect(program?.output()).not.toContain(stored.payload);
    for (const { id } of [stored, next]) await untilOutcome(stack, id, [device.token], 'delivered');
  },
);

test('mosquitto_sub as the page shows it prints a push, and it is delivered', async () => {
  const command = read('Shell').replaceAll('TOKEN', device.token).replace('AUTH', device.auth);
  program = startProcess('sh', ['-c', `exec ${command}`]);
  const { id, payload } = await send(stack, device.token);
  await untilPrinted(payload);
  await untilOutcome(stack, id, [device.token], 'delivered');
});

/** Writes what the program has written when it is killed before it acknowledges a push. */
function storeAsBeforeACrash(id: string, payload: string): void {
  const db = new DatabaseSync(join(folder, 'pushes.db'));
  db.exec('CREATE TABLE pushes (id TEXT PRIMARY KEY, data TEXT)');
  db.prepare('INSERT INTO pushes VALUES (?, ?)').run(id, payload);
  db.close();
}
