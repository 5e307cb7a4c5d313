import { describe, expect, test } from '@jest/globals';
import {
  computeTtlSeconds,
  createHeaders,
  encodePayload,
} from '../../src/channels/web-push/payload.ts';
import { createPush } from './pushes.ts';

describe('the payload', () => {
  test('is the unchanged data and the id of the push', () => {
    const push = createPush({ data: '{"b":1.0,"a":12345678901234567890}' });
    expect(encodePayload(push).toString()).toBe(
      `{"b":1.0,"a":12345678901234567890,"_pushyId":"${push.id}"}`,
    );
  });
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
  });
});

describe('the time to live', () => {
  const now = Date.now();
  const ttl = (seconds: number) =>
    computeTtlSeconds(createPush({ expiresAt: new Date(now + seconds * 1_000) }), now);

  test('is the remaining time, 28 days at most', () => {
    expect([ttl(60), ttl(365 * 86_400), ttl(-1)]).toEqual([60, 28 * 86_400, 0]);
  });
});
