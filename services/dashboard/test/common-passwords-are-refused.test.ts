import { expect, test } from '@jest/globals';
import { COMMON_PASSWORDS, COMMON_WORDS } from '../src/login/common-passwords.ts';
import { requireUncommon } from '../src/login/new-password.ts';

const PASSWORD = 'correct horse battery staple';
const GENERATED = 'q7#Zk2!mV9x$';

test.each([
  ...['123456789012', 'Qwertyuiop12', '1Q2w3e4r5t6Y', 'passwordpassword', 'P@ssw0rd2026!'],
  ...['Welcome-2026-!', 'admin admin 1234', 'iloveyou iloveyou', 'Summer2026!!!!'],
  ...['aaaaaaaaaaaa', '121212121212', 'dragondragon', 'x7#Kx7#Kx7#K', 'x7#K2x7#K2x7#'],
  ...['carillon2026!', 'CARILLONcarillon', 'carillon carillon 1'],
  ...['AnnaLee12345', 'leeannalee!!', 'anna.lee@example.org', 'example123456', 'Lee.Carillon.1'],
])(
  'a new password is refused if it is common, repeats itself, or has only known words: %s',
  (password) => {
    const weak = expect.objectContaining({ code: 'INVALID_PARAM' });
    expect(() => requireUncommon(password, 'anna.lee@example.org')).toThrow(weak);
  },
);

test.each([
  ...[PASSWORD, GENERATED, 'q7#Zk2!mV9xq', '83920174665120938475'],
  'anna likes seven green boats',
  ...['a password of more than 12', 'the carillon rings over Ghent', 'annabelle2026x'],
  ...['пароль для консоли', '密码是很长的一句话没有人猜得到', `${GENERATED}${GENERATED}`],
])('a new password is accepted if it is not: %s', (password) => {
  for (const name of ['anna.lee@example.org', '', '007', 'a']) requireUncommon(password, name);
});

test('a new password costs little to check, whatever the operator’s name', () => {
  const names = Array.from({ length: 33 }, (_, n) => 'a'.repeat((n % 30) + 1));
  // The processor's time, which others on the machine do not lengthen.
  const before = process.threadCpuUsage();
  requireUncommon(`${'a'.repeat(250)} bcdef`, names.join(' ').slice(0, 100));
  const { user } = process.threadCpuUsage(before);
  expect(user).toBeLessThan(200_000);
});

test('a new password is compared with lists in lower case, without an entry that is too short', () => {
  const lists = [...COMMON_WORDS, ...COMMON_PASSWORDS];
  expect(lists.filter((text) => text !== text.toLowerCase())).toEqual([]);
  expect(COMMON_WORDS.filter((word) => word.length < 3)).toEqual([]);
  expect([...COMMON_PASSWORDS].filter((password) => password.length < 12)).toEqual([]);
});
