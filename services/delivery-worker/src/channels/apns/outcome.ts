import { parseRetryAfterMs } from '@carillon/core/retry-after';
import { z } from 'zod';
import { type Attempt, WITHHELD } from '../../deliver/provider.ts';
import { type Http2Result, isUnprocessed } from '../http2.ts';

/** Result of one request. */
export type ApnsResponse =
  /**
   * `reason` and `timestamp` (ms, until when the token was valid) as in the response body, if present. `tokenAgeMs`:
   * age of the provider token that APNs called expired, if it was too young to be replaced.
   */
  | {
      kind: 'response';
      status: number;
      reason?: string;
      timestamp?: number;
      retryAfterMs?: number | undefined;
      tokenAgeMs?: number;
    }
  /** Known to be unprocessed by APNs: a refused stream, or one above a GOAWAY's last stream (RFC 9113, 6.8 and 8.7). */
  | { kind: 'unprocessed'; detail: string }
  /** No response came: it is unknown whether APNs has the push. */
  | { kind: 'no-response'; detail: string }
  /** The credential can't be used for a connection, or was refused in the handshake. */
  | { kind: 'bad-credential'; detail: string }
  /** The request was never written. */
  | { kind: 'withheld' };

type HttpResponse = Extract<ApnsResponse, { kind: 'response' }>;
type FailedRequest = Exclude<ApnsResponse, { kind: 'response' | 'withheld' }>;
type OutcomeRule = (response: HttpResponse, detail: string) => Attempt;

const badAddress: OutcomeRule = (_, detail) => rejected('bad-provider-address', detail);
const wrongCredential: OutcomeRule = (_, detail) => rejected('wrong-credential', detail);
const tooLarge: OutcomeRule = (_, detail) => rejected('payload-too-large', detail);
const rejectedByProvider: OutcomeRule = (_, detail) => rejected('rejected-by-provider', detail);
const authError: OutcomeRule = (_, detail) => ({ kind: 'auth-error', detail });
/** APNs compares the token's issue time, which is of our clock, with its own clock. */
const expiredToken: OutcomeRule = ({ tokenAgeMs }, detail) => {
  if (tokenAgeMs === undefined) return { kind: 'auth-error', detail };
  const age = formatMinutes(tokenAgeMs);
  const cause = `for a token of ${age}: the clock of the delivery-worker is off`;
  return { kind: 'auth-error', detail: `${detail} ${cause}` };
};
const gone: OutcomeRule = ({ timestamp }, detail) => ({
  kind: 'gone',
  flag: 'uninstalled',
  detail,
  ...(timestamp !== undefined && { lastSeenAt: new Date(timestamp) }),
});
const throttled: OutcomeRule = (response, detail) => retry('recipient', response, detail);
const unavailable: OutcomeRule = (response, detail) => retry('upstream', response, detail);

/**
 * Rules by Apple's reason ("Handling notification responses from APNs"). Errors about the device's token or bundle
 * concern the recipient; errors about our key or certificate and the environment concern the upstream.
 */
const BY_REASON = new Map<string, OutcomeRule>(
  Object.entries({
    BadDeviceToken: badAddress,
    MissingDeviceToken: badAddress,
    // The bundle that the device registered is no valid topic.
    BadTopic: badAddress,
    MissingTopic: badAddress,
    DeviceTokenNotForTopic: wrongCredential,
    TopicDisallowed: wrongCredential,
    PayloadTooLarge: tooLarge,
    Unregistered: gone,
    ExpiredToken: gone,
    BadCertificate: authError,
    BadCertificateEnvironment: authError,
    BadEnvironmentKeyIdInToken: authError,
    ExpiredProviderToken: expiredToken,
    Forbidden: authError,
    InvalidProviderToken: authError,
    MissingProviderToken: authError,
    UnrelatedKeyIdInToken: authError,
    TooManyRequests: throttled,
    TooManyProviderTokenUpdates: unavailable,
    IdleTimeout: unavailable,
    InternalServerError: unavailable,
    ServiceUnavailable: unavailable,
    Shutdown: unavailable,
  }),
);

/** Rules for responses without a known reason, such as those of a proxy in between. */
const BY_STATUS = new Map<number, OutcomeRule>([
  [403, authError],
  [410, gone],
  [413, tooLarge],
  [429, throttled],
]);

/** TLS alerts about a client certificate (RFC 8446, 6.2), in OpenSSL's codes. */
const CERTIFICATE_ALERT =
  /ALERT_(?:BAD_CERTIFICATE|CERTIFICATE_(?:EXPIRED|REVOKED|UNKNOWN|REQUIRED)|UNSUPPORTED_CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)/;

const errorBody = z.object({
  reason: z.string().optional().catch(undefined),
  timestamp: z.number().optional().catch(undefined),
});

const ACCEPTED: ApnsResponse = { kind: 'response', status: 200 };

/** Converts the result of a request. */
export function toApnsResponse(result: Http2Result): ApnsResponse {
  if (result.kind === 'withheld') return { kind: 'withheld' };
  if (result.kind === 'failed') {
    const failure = classifyFailure(result.error);
    const isRetryable = result.isUnprocessed && failure.kind === 'no-response';
    return isRetryable ? { ...failure, kind: 'unprocessed' } : failure;
  }
  const { status, headers, text, cutBy } = result;
  if (status === 200) return ACCEPTED;
  // A rejection without its reason must not be acted on.
  if (cutBy !== undefined) return classifyFailure(cutBy);
  const retryAfterMs = parseRetryAfterMs(headers['retry-after'], Date.now());
  return { kind: 'response', status, ...parseErrorBody(text), retryAfterMs };
}

/** Maps a response of APNs to an attempt. */
export function apnsOutcome(response: ApnsResponse): Attempt {
  switch (response.kind) {
    case 'response':
      return outcomeOfResponse(response);
    case 'unprocessed':
      return { kind: 'retry', scope: 'connection', detail: response.detail };
    case 'no-response':
      return { kind: 'retry', scope: 'upstream', detail: response.detail };
    case 'bad-credential':
      return { kind: 'auth-error', detail: response.detail };
    case 'withheld':
      return WITHHELD;
  }
}

function outcomeOfResponse(response: HttpResponse): Attempt {
  if (response.status === 200) return { kind: 'sent' };
  const detail = `${response.status} ${response.reason ?? 'without a reason'}`;
  const rule = BY_REASON.get(response.reason ?? '') ?? BY_STATUS.get(response.status);
  if (rule !== undefined) return rule(response, detail);
  const blamesRequest = response.status >= 400 && response.status < 500;
  return (blamesRequest ? rejectedByProvider : unavailable)(response, detail);
}

function rejected(reason: Extract<Attempt, { kind: 'rejected' }>['reason'], detail: string) {
  return { kind: 'rejected', reason, detail } as const;
}

function retry(
  scope: 'recipient' | 'upstream',
  { retryAfterMs }: HttpResponse,
  detail: string,
): Attempt {
  const retryAfter = retryAfterMs !== undefined && { afterMs: retryAfterMs };
  return { kind: 'retry', scope, detail, ...retryAfter };
}

function formatMinutes(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  return minutes === 1 ? '1 minute' : `${minutes} minutes`;
}

/** Checks whether the provider token had expired when the request arrived. */
export function isExpiredToken(response: ApnsResponse): response is HttpResponse {
  return response.kind === 'response' && response.reason === 'ExpiredProviderToken';
}

/** Classifies a request without a response, by the error of node-apn or Node. */
export function classifyFailure(failure: unknown): FailedRequest {
  const detail = collectErrorTexts(failure).join(': ');
  if (CERTIFICATE_ALERT.test(detail)) return { kind: 'bad-credential', detail };
  return { kind: isUnprocessed(detail) ? 'unprocessed' : 'no-response', detail };
}

/** Collects codes and messages along the chain of causes; node-apn's errors are VErrors, inside `{ error }`. */
function collectErrorTexts(failure: unknown): string[] {
  const texts: string[] = [];
  let current: unknown = failure;
  for (let depth = 0; depth < 8 && typeof current === 'object' && current !== null; depth += 1) {
    const { code, message, error, cause, jse_cause } = current as Record<string, unknown>;
    for (const text of [code, message]) {
      if (typeof text === 'string' && !texts.some((existing) => existing.includes(text)))
        texts.push(text);
    }
    // A VError's `cause` is a method.
    current = error ?? jse_cause ?? (typeof cause === 'object' ? cause : undefined);
  }
  return texts;
}

function parseErrorBody(text: string): { reason?: string; timestamp?: number } {
  try {
    const { reason, timestamp } = errorBody.parse(JSON.parse(text));
    return {
      ...(reason !== undefined && { reason }),
      ...(timestamp !== undefined && { timestamp }),
    };
  } catch {
    return {};
  }
}
