import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { encrypt } from '../../src/channels/web-push/encrypt.ts';
import { createBrowser } from './browser.ts';

describe('a message for a browser', () => {
  test('is decrypted by it, whatever the content', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 1_300 }), (text) => {
        const browser = createBrowser();
        const plaintext = Buffer.from(text);
        const body = encrypt(plaintext, browser.keys);
        expect(body.length).toBe(plaintext.length + 103);
        expect(browser.decrypt(body)).toBe(plaintext.toString());
      }),
      { numRuns: 200 },
    );
  });

  test('is decrypted by no other browser', () => {
    const body = encrypt(Buffer.from('secret'), createBrowser().keys);
    expect(() => createBrowser().decrypt(body)).toThrow();
  });

  test('has a key pair and a salt of its own each time', () => {
    const { keys } = createBrowser();
    // More than the salts that are generated at once.
    const bodies = Array.from({ length: 600 }, () => encrypt(Buffer.from('same'), keys));
    const salts = new Set(bodies.map((body) => body.toString('hex', 0, 16)));
    const points = new Set(bodies.map((body) => body.toString('hex', 21, 86)));
    expect([salts.size, points.size]).toEqual([600, 600]);
  });

  test.each([
    ['no point', Buffer.alloc(65, 4)],
    ['nothing', Buffer.alloc(0)],
  ])('is not encrypted for a key that is %s', (_what, point) => {
    const keys = { ...createBrowser().keys, p256dh: point.toString('base64url') };
    expect(() => encrypt(Buffer.from('x'), keys)).toThrow();
  });
});
