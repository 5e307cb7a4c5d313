import { NOT_ALLOWED as ADDRESS_NOT_ALLOWED } from '@carillon/core/public-address';
import { parseRetryAfterMs } from '@carillon/core/retry-after';
import { CONTACT_HINT } from '@carillon/core/web-push-contact';
import { type Attempt, WITHHELD } from '../../deliver/provider.ts';
import type { PushServiceResponse } from './response.ts';

/** Maximum length of the stored description of an error. */
const DETAIL_CHARACTERS = 300;
/** Header with Windows' description of an error. */
const WNS_ERROR_HEADER = 'x-wns-error-description';

/** Result for a push that is longer than push services accept. */
export const TOO_LARGE: Attempt = {
  kind: 'rejected',
  reason: 'payload-too-large',
  detail: 'more than 3,993 bytes',
  isUnsent: true,
};
/** Result for an endpoint that is never connected to. */
export const NOT_ALLOWED: Attempt = {
  kind: 'rejected',
  reason: 'endpoint-not-allowed',
  detail: 'the endpoint is of no push service',
  isUnsent: true,
};
/** Result for a subscription with unusable keys. */
export const BAD_KEYS: Attempt = {
  kind: 'rejected',
  reason: 'bad-provider-address',
  detail: 'the keys of the subscription are unusable',
  isUnsent: true,
};

/**
 * Error texts of Mozilla's, Google's and Apple's services for a subscription that was created with another key pair. It
 * concerns this browser only: any client can register such a subscription, so it must not stop other pushes.
 */
const OTHER_KEY_PAIR =
  /public key mismatch|not correspond to the (?:credentials used|sender)|VapidPkHashMismatch/i;

/**
 * Maps a push service's response to an attempt (RFC 8030, 5 and 8.4; RFC 8292, 4.2; for Windows "Push notification
 * service request and response headers"). docs/use/providers.md has the table.
 *
 * A name without a public address counts as a network failure: the names are the vendors' or the operator's, so our resolver is
 * wrong, and that is temporary.
 *
 * @param nowMs for a Retry-After that is a date
 */
export function outcomeOfResponse(response: PushServiceResponse, nowMs: number): Attempt {
  if (response === 'withheld') return WITHHELD;
  if ('error' in response) {
    const scope = response.isStale ? 'connection' : 'upstream';
    return { kind: 'retry', scope, detail: response.error };
  }
  const { status, headers } = response;
  if (status >= 200 && status < 300) return { kind: 'sent' };
  const text = String(headers[WNS_ERROR_HEADER] ?? response.text);
  const detail = formatDetail(status, text);
  if (OTHER_KEY_PAIR.test(text)) {
    return { kind: 'rejected', reason: 'wrong-credential', detail };
  }
  if (isAuthError(status)) return { kind: 'auth-error', detail };
  if (status === 404 || status === 410) return { kind: 'gone', flag: 'unsubscribed', detail };
  if (status === 413) return { kind: 'rejected', reason: 'payload-too-large', detail };
  const afterMs = parseRetryAfterMs(headers['retry-after'], nowMs);
  const scope = retryScopeFor(status, 'retry-after' in headers);
  if (scope === undefined) return { kind: 'rejected', reason: 'rejected-by-provider', detail };
  return { kind: 'retry', scope, detail, ...(afterMs !== undefined && { afterMs }) };
}

/**
 * Maps the response of a service that neither a vendor nor the operator vouches for. Its name may resolve to the operator's
 * network, and its refusal says nothing about the app's key pair: any device can register such an endpoint.
 */
export function outcomeOfUnknownService(response: PushServiceResponse, nowMs: number): Attempt {
  const error = response !== 'withheld' && 'error' in response ? response.error : undefined;
  if (error === ADDRESS_NOT_ALLOWED) return NOT_ALLOWED;
  const attempt = outcomeOfResponse(response, nowMs);
  if (attempt.kind !== 'auth-error') return attempt;
  return { kind: 'rejected', reason: 'rejected-by-provider', detail: attempt.detail };
}

/**
 * Adds the likely cause to an attempt that Apple refused, for operators: its text is the same for a wrong key and for a
 * contact that it doesn't accept.
 *
 * @param contact the contact of the signature, which push services may refuse
 */
export function explainBadContact(attempt: Attempt, contact: string): Attempt {
  if (attempt.kind !== 'auth-error' || !attempt.detail.includes('BadJwtToken')) return attempt;
  const cause = `likely because of the contact ${contact}: ${CONTACT_HINT}`;
  return { ...attempt, detail: `${attempt.detail} ${cause}` };
}

/** Checks whether a status refuses our credential. */
export function isAuthError(status: number): boolean {
  return status === 401 || status === 403;
}

function retryScopeFor(
  status: number,
  hasRetryAfter: boolean,
): 'recipient' | 'upstream' | undefined {
  // Windows throttles with 406, which otherwise says that it accepts no such request.
  if (status === 406 && hasRetryAfter) return 'recipient';
  if (status === 408 || status === 425 || status === 429) return 'recipient';
  return status >= 500 ? 'upstream' : undefined;
}

/** Makes a push service's text safe for a log line. */
function formatDetail(status: number, text: string): string {
  const sanitizedText = text.replace(/[^\x20-\x7e]+/g, ' ').trim();
  return `${status} ${sanitizedText}`.slice(0, DETAIL_CHARACTERS).trim();
}
