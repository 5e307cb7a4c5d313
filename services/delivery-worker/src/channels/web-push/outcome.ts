import { type Attempt, WITHHELD } from '../../deliver/provider.ts';
import { parseRetryAfterMs } from '../retry-after.ts';
import type { PushServiceResponse } from './response.ts';

const DETAIL_CHARACTERS = 300;

/** A push that is longer than push services accept. */
export const TOO_LARGE: Attempt = {
  kind: 'rejected',
  reason: 'payload-too-large',
  detail: 'more than 3,993 bytes',
};
/** An endpoint that is never connected to. */
export const NOT_ALLOWED: Attempt = {
  kind: 'rejected',
  reason: 'endpoint-not-allowed',
  detail: 'the endpoint is of no push service',
};
/** A subscription with unusable keys. */
export const BAD_KEYS: Attempt = {
  kind: 'rejected',
  reason: 'bad-provider-address',
  detail: 'the keys of the subscription are unusable',
};

/**
 * Error texts of Mozilla's, Google's and Apple's services for a subscription that was created with another key pair. It
 * concerns this browser only: any client can register such a subscription, so it must not stop other pushes.
 */
const OTHER_KEY_PAIR =
  /public key mismatch|not correspond to the (?:credentials used|sender)|VapidPkHashMismatch/i;

/**
 * Maps a push service's response to an attempt (RFC 8030, 5 and 8.4; RFC 8292, 4.2).
 *
 * | response | attempt |
 * |---|---|
 * | 2xx | sent |
 * | 404, 410 | the browser has unsubscribed |
 * | 401, 403 | our key pair or signature is refused: the circuit opens; for a subscription of another key pair: wrong-credential |
 * | 413 | payload-too-large |
 * | 429 | this subscription is deferred (RFC 8030, 8.4 counts by subscription) |
 * | 408, 425 | this subscription is deferred |
 * | 3xx, other 4xx | rejected-by-provider: no push service redirects its senders, and none is followed |
 * | 5xx | a failure of the service |
 * | none | a failure of the service or the network; for an idle connection that was just closed only a deferral |
 *
 * A name without a public address counts as a network failure: the names are the vendors', so our resolver is wrong, and
 * that is temporary.
 *
 * @param nowMs for a Retry-After that is a date
 */
export function outcomeOfResponse(response: PushServiceResponse, nowMs: number): Attempt {
  if (response === 'withheld') return WITHHELD;
  if ('error' in response) {
    return {
      kind: 'retry',
      scope: response.isStale ? 'recipient' : 'upstream',
      detail: response.error,
    };
  }
  const { status } = response;
  if (status >= 200 && status < 300) return { kind: 'sent' };
  const detail = formatDetail(response.status, response.text);
  if (OTHER_KEY_PAIR.test(response.text)) {
    return { kind: 'rejected', reason: 'wrong-credential', detail };
  }
  if (isAuthError(status)) return { kind: 'auth-error', detail };
  if (status === 404 || status === 410) return { kind: 'gone', flag: 'unsubscribed', detail };
  if (status === 413) return { kind: 'rejected', reason: 'payload-too-large', detail };
  const scope = retryScopeFor(status);
  if (scope === undefined) return { kind: 'rejected', reason: 'rejected-by-provider', detail };
  const afterMs = parseRetryAfterMs(response.headers['retry-after'], nowMs);
  return { kind: 'retry', scope, detail, ...(afterMs !== undefined && { afterMs }) };
}

/** Checks whether a status refuses our credential. */
export function isAuthError(status: number): boolean {
  return status === 401 || status === 403;
}

function retryScopeFor(status: number): 'recipient' | 'upstream' | undefined {
  if (status === 408 || status === 425 || status === 429) return 'recipient';
  return status >= 500 ? 'upstream' : undefined;
}

/** Makes a push service's text safe for a log line. */
function formatDetail(status: number, text: string): string {
  const sanitizedText = text.replace(/[^\x20-\x7e]+/g, ' ').trim();
  return `${status} ${sanitizedText}`.slice(0, DETAIL_CHARACTERS).trim();
}
