import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { encrypt } from '../../src/channels/web-push/encrypt.ts';
import {
  computeTtlSeconds,
  createHeaders,
  encodePayload,
} from '../../src/channels/web-push/payload.ts';
import { createVapid } from '../../src/channels/web-push/vapid.ts';
import { createPush } from '../pushes.ts';
import { createBrowser, createSecret } from './browser.ts';

const ORIGIN = 'https://push.example';
const HOUR_MS = 3_600_000;

test('the payload is the unchanged data and the id of the push', () => {
  const push = createPush({ data: '{"b":1.0,"a":12345678901234567890}' });
  const payload = `{"b":1.0,"a":12345678901234567890,"_pushyId":"${push.id}"}`;
  expect(encodePayload(push).toString()).toBe(payload);
});

test("the push's id and collapse key replace fields of their names; without a key, data keeps its own", () => {
  const data = '{"_pushyCollapseKey":"theirs","n":1.0,"_pushyId":"theirs"}';
  const push = createPush({ data });
  expect(encodePayload(push).toString()).toBe(
    `{"_pushyCollapseKey":"theirs","n":1.0,"_pushyId":"${push.id}"}`,
  );
  expect(encodePayload({ ...push, options: { collapse_key: 'k' } }).toString()).toBe(
    `{"n":1.0,"_pushyId":"${push.id}","_pushyCollapseKey":"k"}`,
  );
});

describe('the headers', () => {
  const topicFor = (collapseKey: string) =>
    createHeaders(createPush({ options: { collapse_key: collapseKey } })).topic;

  test('have the collapse key as the topic', () => {
    for (const key of ['news', 'A-_9'.repeat(8)]) expect(topicFor(key)).toBe(key);
  });

  test('have a hash of a collapse key that is no valid topic', () => {
    const topics = ['two words', 'two  words', 'ü', 'x'.repeat(33)].map(topicFor);
    for (const topic of topics) expect(topic).toMatch(/^[0-9A-Za-z_-]{32}$/);
    expect(new Set(topics).size).toBe(topics.length);
  });

  test('have no topic without a collapse key', () => {
    expect(createHeaders(createPush())).toEqual({ urgency: 'high' });
  });

  test('are urgent unless the push shows nothing', () => {
    const urgency = (options: object) => createHeaders(createPush({ options })).urgency;
    expect(urgency({ content_available: true })).toBe('normal');
    expect(urgency({ content_available: true, notification: { title: 't' } })).toBe('high');
    expect(urgency({ content_available: true, notification: { thread_id: 't' } })).toBe('normal');
    expect(urgency({ content_available: true, notification: { badge: 0 } })).toBe('high');
  });
});

test('the time to live is the remaining time, 28 days at most', () => {
  const now = Date.now();
  const ttl = (seconds: number) =>
    computeTtlSeconds(createPush({ expiresAt: new Date(now + seconds * 1_000) }), now);
  expect([ttl(60), ttl(365 * 86_400), ttl(-1)]).toEqual([60, 28 * 86_400, 0]);
});

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

function createVapidWithClock() {
  const clock = { ms: 0 };
  return { clock, vapid: createVapid(createSecret(), () => clock.ms) };
}

test('a signature is renewed long before it expires', () => {
  const { clock, vapid } = createVapidWithClock();
  const first = vapid.authorize(ORIGIN);
  clock.ms = 5.9 * HOUR_MS;
  expect(vapid.authorize(ORIGIN)).toBe(first);
  clock.ms = 6.1 * HOUR_MS;
  expect(vapid.authorize(ORIGIN)).not.toBe(first);
});

test('a refused signature is renewed once, unless it is fresh', () => {
  const { clock, vapid } = createVapidWithClock();
  const first = vapid.authorize(ORIGIN);
  expect(vapid.renew(ORIGIN, first)).toBe(false);
  clock.ms = 0.1 * HOUR_MS;
  expect(vapid.renew(ORIGIN, first)).toBe(true);
  const second = vapid.authorize(ORIGIN);
  expect(second).not.toBe(first);
  // Another request with the first one was on its way.
  expect(vapid.renew(ORIGIN, first)).toBe(true);
  expect(vapid.authorize(ORIGIN)).toBe(second);
});

test('each origin has a signature of its own', () => {
  const { vapid } = createVapidWithClock();
  expect(vapid.authorize(ORIGIN)).not.toBe(vapid.authorize('https://other.example'));
});
