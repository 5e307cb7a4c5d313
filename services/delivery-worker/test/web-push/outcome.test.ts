import { describe, expect, test } from '@jest/globals';
import {
  BAD_KEYS,
  NOT_ALLOWED,
  outcomeOfResponse,
  TOO_LARGE,
} from '../../src/channels/web-push/outcome.ts';
import type { Attempt } from '../../src/deliver/provider.ts';

const NOW_MS = Date.parse('2030-01-01T00:00:00Z');

const MOZILLA =
  '{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}';
const GOOGLE =
  'the VAPID credentials in the authorization header do not correspond to the credentials used to create the subscriptions.\n';
const APPLE = '{"reason":"VapidPkHashMismatch"}';

const outcomeFor = (status: number, text = '', headers: Record<string, string> = {}) =>
  outcomeOfResponse({ status, text, headers }, NOW_MS);

/** Other answers are in docs/use/providers.md, which a test of all channels reads. */
describe('a push service that responds', () => {
  test.each<[number, string, Partial<Attempt>]>([
    [401, 'expired', { kind: 'auth-error', detail: '401 expired' }],
    [403, '{"reason":"BadJwtToken"}', { kind: 'auth-error' }],
    [401, MOZILLA, { kind: 'rejected', reason: 'wrong-credential' }],
    [403, GOOGLE, { kind: 'rejected', reason: 'wrong-credential' }],
    [400, APPLE, { kind: 'rejected', reason: 'wrong-credential' }],
    [400, 'bad', { kind: 'rejected', reason: 'rejected-by-provider', detail: '400 bad' }],
    [307, '', { kind: 'rejected', reason: 'rejected-by-provider' }],
    [502, '<html>', { kind: 'retry', scope: 'upstream' }],
  ])('%i %p', (status, text, attempt) => {
    expect(outcomeFor(status, text)).toMatchObject(attempt);
  });

  test('Windows describes its errors in a header', () => {
    const headers = { 'x-wns-error-description': 'The channel\r\nis unknown' };
    expect(outcomeFor(404, 'a page', headers)).toMatchObject({
      kind: 'gone',
      detail: '404 The channel is unknown',
    });
  });

  test('Windows is understood by its header, whatever the body, when the key pair is another', () => {
    const headers = { 'x-wns-error-description': 'VAPID public key mismatch' };
    expect(outcomeFor(401, '<html>', headers)).toEqual({
      kind: 'rejected',
      reason: 'wrong-credential',
      detail: '401 VAPID public key mismatch',
    });
  });

  test('with a long description in a header is quoted in part, on one line', () => {
    const headers = { 'x-wns-error-description': `a\u001b[31m${'x'.repeat(4_000)}` };
    const { detail } = outcomeFor(400, '', headers) as { detail: string };
    expect(detail).toMatch(/^400 a \[31mx+$/);
    expect(detail).toHaveLength(300);
  });

  test('with a long text is quoted in part, on one line', () => {
    const attempt = outcomeFor(400, `a\r\nb\u001b[31m${'x'.repeat(4_000)}`);
    expect(attempt).toMatchObject({ detail: expect.stringMatching(/^400 a b \[31mx{1,300}$/) });
  });
});

test('only what no push service has refused is unsent', () => {
  for (const attempt of [TOO_LARGE, NOT_ALLOWED, BAD_KEYS]) {
    expect(attempt).toMatchObject({ kind: 'rejected', isUnsent: true });
  }
  expect(outcomeFor(413)).not.toHaveProperty('isUnsent');
});
