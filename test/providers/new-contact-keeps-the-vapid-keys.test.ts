import { createECDH } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, test } from '@jest/globals';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { runCarillon, runCarillonJson } from '../support/carillon.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const CONTACT = ['--contact', 'mailto:you@mail.net'];

let stack: SharedStack;
let app: string;
beforeAll(async () => {
  stack = await useSharedStack();
});
beforeEach(async () => {
  const args = ['app', 'create', 'fresh', '--account', stack.account];
  ({ id: app } = await runCarillonJson<{ id: string }>(stack.home, ...args));
});

const set = (...args: string[]) =>
  runCarillon(stack.home, ['--json', 'credential', 'web-push', '--app', app, ...args]);

async function publicKey(): Promise<string> {
  const { json } = await callWithoutKey(stack.dev.api, `/web-push/public-key?appId=${app}`);
  return `${json.publicKey}`;
}

function newPrivateKey(): string {
  const file = join(createTemporaryFolder(), 'private-key');
  const ecdh = createECDH('prime256v1');
  ecdh.generateKeys();
  writeFileSync(file, ecdh.getPrivateKey('base64url'));
  return file;
}

test('a new app gets a contact as documented, and keeps its key pair', async () => {
  const before = await publicKey();
  const { code, stdout } = await set(...CONTACT);
  expect(code).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ publicKey: before, contact: CONTACT[1] });
  expect(await publicKey()).toBe(before);
});

test('a list warns until the app has a contact, which is none that Apple refuses', async () => {
  const list = async () =>
    (await runCarillon(stack.home, ['credential', 'list', '--app', app])).stdout;
  const warning =
    /^ {2}no contact that Apple accepts, so Safari gets no push: set WEB_PUSH_CONTACT/m;
  expect(await list()).toMatch(warning);
  const { code, stderr } = await set('--contact', 'mailto:you@example.com');
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('--contact') });
  expect(await list()).toMatch(warning);
  await set(...CONTACT);
  expect(await list()).not.toMatch(warning);
});

test('so does an app with browsers, each time', async () => {
  const before = await publicKey();
  await registerBrowser({ ...stack.dev, app });
  expect((await set(...CONTACT)).code).toBe(0);
  expect((await set('--contact', 'https://mail.net/push')).code).toBe(0);
  expect(await publicKey()).toBe(before);
});

test.each([
  ['nothing', () => []],
  ['another pair', () => ['--private-key-file', newPrivateKey(), ...CONTACT]],
])('with %s it is refused and the pair stays, unless --replace says so', async (_what, args) => {
  const before = await publicKey();
  const { code, stderr } = await set(...args());
  expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining('--replace') });
  expect(await publicKey()).toBe(before);
  expect((await set('--replace', ...args())).code).toBe(0);
  expect(await publicKey()).not.toBe(before);
});

test('a key pair that is imported again stays, with its new contact', async () => {
  const file = newPrivateKey();
  await set('--replace', '--private-key-file', file);
  const before = await publicKey();
  expect((await set('--private-key-file', file, ...CONTACT)).code).toBe(0);
  expect(await publicKey()).toBe(before);
});
