import { createSetupLink } from '@carillon/admin/operators';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { COMMON_PASSWORDS, COMMON_WORDS } from '../src/login/common-passwords.ts';
import { requireUncommon } from '../src/login/new-password.ts';
import {
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
  tokenOf,
} from './console-under-test.ts';

const COMMON = 'Password1234!';
const GENERATED = 'q7#Zk2!mV9x$';

describe('a new password', () => {
  test.each([
    ...['123456789012', 'Qwertyuiop12', '1Q2w3e4r5t6Y', 'passwordpassword', 'P@ssw0rd2026!'],
    ...['Welcome-2026-!', 'admin admin 1234', 'iloveyou iloveyou', 'Summer2026!!!!'],
    ...['aaaaaaaaaaaa', '121212121212', 'dragondragon', 'x7#Kx7#Kx7#K', 'x7#K2x7#K2x7#'],
    ...['carillon2026!', 'CARILLONcarillon', 'carillon carillon 1'],
    ...['AnnaLee12345', 'leeannalee!!', 'anna.lee@example.org', 'example123456', 'Lee.Carillon.1'],
  ])('is refused if it is common, repeats itself, or has only known words: %s', (password) => {
    const weak = expect.objectContaining({ code: 'INVALID_PARAM' });
    expect(() => requireUncommon(password, 'anna.lee@example.org')).toThrow(weak);
  });

  test.each([
    ...[
      PASSWORD,
      GENERATED,
      'q7#Zk2!mV9xq',
      '83920174665120938475',
      'anna likes seven green boats',
    ],
    ...['a password of more than 12', 'the carillon rings over Ghent', 'annabelle2026x'],
    ...['пароль для консоли', '密码是很长的一句话没有人猜得到', `${GENERATED}${GENERATED}`],
  ])('is accepted if it is not: %s', (password) => {
    for (const name of ['anna.lee@example.org', '', '007', 'a']) requireUncommon(password, name);
  });

  test('costs little to check, whatever the operator’s name', () => {
    const names = Array.from({ length: 33 }, (_, n) => 'a'.repeat((n % 30) + 1));
    const startedAt = performance.now();
    requireUncommon(`${'a'.repeat(250)} bcdef`, names.join(' ').slice(0, 100));
    expect(performance.now() - startedAt).toBeLessThan(200);
  });

  test('is compared with lists in lower case, without an entry that is too short', () => {
    const lists = [...COMMON_WORDS, ...COMMON_PASSWORDS];
    expect(lists.filter((text) => text !== text.toLowerCase())).toEqual([]);
    expect(COMMON_WORDS.filter((word) => word.length < 3)).toEqual([]);
    expect([...COMMON_PASSWORDS].filter((password) => password.length < 12)).toEqual([]);
  });
});

describe('at the console, a common password', () => {
  let started: ConsoleUnderTest;
  beforeAll(async () => {
    started = await startConsole();
  });
  afterAll(() => started.stop());

  test('is refused for the first operator, for an invite, a new password and a change, and the link still works', async () => {
    const { store, url } = started;
    const setUp = (link: string | undefined, password: string, name?: string) =>
      createBrowser(url).post('/api/setup', { token: tokenOf(link), name, password });
    const refused = { status: 400, body: { code: 'INVALID_PARAM' } };
    const first = await createSetupLink(store, url);
    expect(await setUp(first, COMMON, 'Olga')).toMatchObject(refused);
    expect(await setUp(first, 'Olga.Petrowa.1', 'Olga Petrowa')).toMatchObject(refused);
    const owner = await setUpOwner(started);
    const grant = { role: 'viewer', accounts: 'all' };
    const { link: invite } = (await owner.post('/api/operators/invite', grant)).body;
    expect(await setUp(invite, COMMON, 'Vera')).toMatchObject(refused);
    expect((await setUp(invite, PASSWORD, 'Vera')).status).toBe(200);
    const user = await inviteBrowser(owner, url, { name: 'Benedikt', role: 'viewer' });
    const { link: reset } = (await owner.post(`/api/operators/${user.id}/password-link`)).body;
    expect(await setUp(reset, 'Benedikt1234')).toMatchObject(refused);
    const change = (next: string) => user.post('/api/password', { current: PASSWORD, next });
    expect(await change('benedikt!!!!')).toMatchObject(refused);
    expect((await change(GENERATED)).status).toBe(200);
  });
});
