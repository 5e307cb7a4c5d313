import { expect, test } from '@jest/globals';
import { parseSealingKeys, seal, unseal } from '../src/sealing.ts';

const OLD = `1:${'0a'.repeat(32)}`;
const NEW = `2:${'0b'.repeat(32)}`;
const TEXT = '{"kind":"fcm","privateKey":"…"}';

test('a sealed text opens for whom it belongs to, also after the keys have changed', () => {
  const sealed = seal(parseSealingKeys(OLD), 'app:fcm', TEXT);
  const both = parseSealingKeys(`${NEW},${OLD}`);
  expect(unseal(both, 'app:fcm', sealed)).toBe(TEXT);
  expect(seal(both, 'app:fcm', TEXT).key).toBe(2);
});

test('it holds nothing of the text, and is never the same twice', () => {
  const keys = parseSealingKeys(OLD);
  const [one, two] = [seal(keys, 'app:fcm', TEXT), seal(keys, 'app:fcm', TEXT)];
  expect(JSON.stringify(one)).not.toContain('privateKey');
  expect(one.text).not.toBe(two.text);
});

test('it does not open elsewhere, changed, or without its key', () => {
  const keys = parseSealingKeys(OLD);
  const sealed = seal(keys, 'app:fcm', TEXT);
  const changed = { ...sealed, text: Buffer.from('other').toString('base64') };
  expect(() => unseal(keys, 'other:fcm', sealed)).toThrow();
  expect(() => unseal(keys, 'app:fcm', changed)).toThrow();
  expect(() => unseal(parseSealingKeys(NEW), 'app:fcm', sealed)).toThrow('no sealing key 1');
});

test.each(['', '1:ab', 'x:'.padEnd(66, '0')])('keys written as "%s" are refused', (text) => {
  expect(() => parseSealingKeys(text)).toThrow('sealing keys are written as');
});
