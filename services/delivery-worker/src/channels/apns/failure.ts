import type { ApnsAnswer } from './outcome.ts';

/** Node's and nghttp2's words for a request that the server never began on. */
const UNPROCESSED = [
  'NGHTTP2_REFUSED_STREAM',
  'ERR_HTTP2_GOAWAY_SESSION',
  'ERR_HTTP2_INVALID_SESSION',
];
/** TLS alerts about a client certificate (RFC 8446, 6.2), in OpenSSL's words. */
const CERTIFICATE_ALERT =
  /ALERT_(?:BAD_CERTIFICATE|CERTIFICATE_(?:EXPIRED|REVOKED|UNKNOWN|REQUIRED)|UNSUPPORTED_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/;

type Unanswered = Exclude<ApnsAnswer, { kind: 'answered' }>;

/** Why a request had no answer, by the error that node-apn or Node gave. */
export function readFailure(failure: unknown): Unanswered {
  const detail = wordsOf(failure).join(': ');
  if (CERTIFICATE_ALERT.test(detail)) return { kind: 'unusable', detail };
  const untouched = UNPROCESSED.some((word) => detail.includes(word));
  return { kind: untouched ? 'unprocessed' : 'lost', detail };
}

/** Codes and texts along the chain of causes; node-apn's errors are VErrors, inside `{ error }`. */
function wordsOf(failure: unknown): string[] {
  const words: string[] = [];
  let at: unknown = failure;
  for (let depth = 0; depth < 8 && typeof at === 'object' && at !== null; depth += 1) {
    const { code, message, error, cause, jse_cause } = at as Record<string, unknown>;
    for (const word of [code, message]) {
      if (typeof word === 'string' && !words.some((known) => known.includes(word)))
        words.push(word);
    }
    // A VError's `cause` is a method.
    at = error ?? jse_cause ?? (typeof cause === 'object' ? cause : undefined);
  }
  return words;
}
