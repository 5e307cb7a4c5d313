import { expect, test } from '@jest/globals';
import { parseSealingKeys, seal, unseal } from '../src/sealing.ts';

const OLD = `1:${'0a'.repeat(32)}`;
const NEW = `2:${'0b'.repeat(32)}`;
const TEXT = '{"kind":"fcm","privateKey":"…"}';

test('a sealed text is unsealed with its associated data, also after a key rotation', () => {
  const sealed = seal(parseSealingKeys(OLD), 'app:fcm', TEXT);
  const both = parseSealingKeys(`${NEW},${OLD}`);
  expect(unseal(both, 'app:fcm', sealed)).toBe(TEXT);
  expect(seal(both, 'app:fcm', TEXT).key).toBe(2);
});

test('a sealed text does not contain the text, and sealing twice gives different results', () => {
  const keys = parseSealingKeys(OLD);
  const [one, two] = [seal(keys, 'app:fcm', TEXT), seal(keys, 'app:fcm', TEXT)];
  expect(JSON.stringify(one)).not.toContain('privateKey');
  expect(one.text).not.toBe(two.text);
});

test('unsealing fails with other associated data, changed data or an unknown key', () => {
  const keys = parseSealingKeys(OLD);
  const sealed = seal(keys, 'app:fcm', TEXT);
  const changed = { ...sealed, text: Buffer.from('other').toString('base64') };
  expect(() => unseal(keys, 'other:fcm', sealed)).toThrow();
  expect(() => unseal(keys, 'app:fcm', changed)).toThrow();
  expect(() => unseal(parseSealingKeys(NEW), 'app:fcm', sealed)).toThrow('no sealing key 1');
});

test.each(['', '1:ab', 'x:'.padEnd(66, '0')])('keys written as "%s" are rejected', (text) => {
  expect(() => parseSealingKeys(text)).toThrow('sealing keys are written as');
});

test('two keys with the same id are rejected: texts sealed by the second could not be unsealed', () => {
  expect(() => parseSealingKeys(`${OLD},1:${'0c'.repeat(32)}`)).toThrow('unique id');
});
