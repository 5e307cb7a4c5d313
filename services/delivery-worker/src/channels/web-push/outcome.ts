import type { Attempt } from '../../deliver/provider.ts';
import { retryAfterMs } from '../retry-after.ts';
import type { Answer } from './answer.ts';

const DETAIL_CHARACTERS = 300;

/** Said of a push that is longer than every push service takes. */
export const TOO_LARGE: Attempt = {
  kind: 'rejected',
  reason: 'payload-too-large',
  detail: 'more than 3,993 bytes',
};
/** Said of an endpoint that we never connect to. */
export const NOT_ALLOWED: Attempt = {
  kind: 'rejected',
  reason: 'endpoint-not-allowed',
  detail: 'the endpoint is of no push service',
};
/** Said of a subscription whose keys can't be used. */
export const BAD_KEYS: Attempt = {
  kind: 'rejected',
  reason: 'bad-provider-address',
  detail: 'the keys of the subscription are unusable',
};

/**
 * How Mozilla's, Google's and Apple's services say that a subscription was made with another key pair: that is
 * about this browser alone. Anybody can register such a subscription, so it must not stop the others' pushes.
 */
const OTHER_KEY_PAIR =
  /public key mismatch|not correspond to the (?:credentials used|sender)|VapidPkHashMismatch/i;

/**
 * What a push service's answer means (RFC 8030, 5 and 8.4; RFC 8292, 4.2).
 *
 * | answer | means |
 * |---|---|
 * | 2xx | sent |
 * | 404, 410 | the browser has unsubscribed |
 * | 401, 403 | our key pair or signature is refused: the line rests; but if the subscription is one of another key pair: wrong-credential |
 * | 413 | payload-too-large |
 * | 429 | this subscription has to wait (RFC 8030, 8.4 counts by it) |
 * | 408, 425 | this subscription has to wait |
 * | 3xx, other 4xx | rejected-by-provider: no push service redirects its senders, and none is followed |
 * | 5xx | the service is unwell |
 * | none | the service, or the network on the way, is unwell; a link that was just closed for being idle: once more |
 *
 * A name without a public address counts as the network's fault: the names are the vendors', so it is our
 * resolver that is wrong, and that heals.
 *
 * @param nowMs for a Retry-After that is a date
 */
export function outcomeOf(answer: Answer, nowMs: number): Attempt {
  if ('error' in answer) {
    return { kind: 'retry', scope: answer.isStale ? 'recipient' : 'line', detail: answer.error };
  }
  const { status } = answer;
  if (status >= 200 && status < 300) return { kind: 'sent' };
  const detail = describe(answer.status, answer.text);
  if (OTHER_KEY_PAIR.test(answer.text)) {
    return { kind: 'rejected', reason: 'wrong-credential', detail };
  }
  if (isRefusal(status)) return { kind: 'refused', detail };
  if (status === 404 || status === 410) return { kind: 'gone', flag: 'unsubscribed' };
  if (status === 413) return { kind: 'rejected', reason: 'payload-too-large', detail };
  const scope = scopeOfRetry(status);
  if (scope === undefined) return { kind: 'rejected', reason: 'rejected-by-provider', detail };
  const afterMs = retryAfterMs(answer.headers['retry-after'], nowMs);
  return { kind: 'retry', scope, detail, ...(afterMs !== undefined && { afterMs }) };
}

/** Whether an answer refuses who we say that we are. */
export function isRefusal(status: number): boolean {
  return status === 401 || status === 403;
}

function scopeOfRetry(status: number): 'recipient' | 'line' | undefined {
  if (status === 408 || status === 425 || status === 429) return 'recipient';
  return status >= 500 ? 'line' : undefined;
}

/** A stranger's text, made fit for a log line. */
function describe(status: number, text: string): string {
  const words = text.replace(/[^\x20-\x7e]+/g, ' ').trim();
  return `${status} ${words}`.slice(0, DETAIL_CHARACTERS).trim();
}
