import { z } from 'zod';
import { type Attempt, WITHHELD } from '../../deliver/provider.ts';

/** Result of one message. */
export type FcmResponse =
  | { kind: 'accepted' }
  /** An error response; `body` is its JSON, or text. */
  | { kind: 'response'; status: number; body: unknown; retryAfterMs?: number | undefined }
  /** No response came: it is unknown whether FCM has the message. */
  | { kind: 'no-response'; detail: string }
  /** No response came in time: it is unknown too, and likelier that FCM has the message. */
  | { kind: 'timeout'; detail: string }
  /** The library found the message malformed and sent nothing. */
  | { kind: 'malformed'; detail: string }
  /** There is no access token; `body` is the token server's response. */
  | { kind: 'no-token'; status: number; body: unknown; retryAfterMs?: number | undefined }
  /** No access token can be requested: the key can't sign. */
  | { kind: 'bad-credential'; detail: string }
  /** The request was never written. */
  | { kind: 'withheld' };

type ErrorResponse = Extract<FcmResponse, { kind: 'response' | 'no-token' }>;
type OutcomeRule = (response: ErrorResponse, error: GoogleError) => Attempt;

/** An error of a Google API (google.rpc.Status). */
interface GoogleError {
  /** FcmError.errorCode; only FCM itself sends it. */
  fcmCode?: string | undefined;
  status?: string | undefined;
  message: string;
  /** Invalid fields of the request (google.rpc.BadRequest). */
  fields: string[];
}

const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';
const googleError = z.object({
  error: z.object({
    status: z.string().optional(),
    message: z.string().default(''),
    details: z
      .array(
        z.object({
          '@type': z.string().optional(),
          errorCode: z.string().optional(),
          fieldViolations: z.array(z.object({ field: z.string().default('') })).default([]),
        }),
      )
      .default([]),
  }),
});
/** RFC 6749, 5.2. */
const oauthError = z.object({ error: z.string() });
/** Codes of RFC 6749, 4.1.2.1, that concern the server and not the client. */
const OAUTH_TRANSIENT_ERRORS = ['server_error', 'temporarily_unavailable', 'internal_failure'];

/** Minimum delay of the retry after a timeout (Firebase, "Best practices when sending FCM messages at scale"). */
const RETRY_AFTER_TIMEOUT_MS = 10_000;

const authError: OutcomeRule = (response, error) => ({
  kind: 'auth-error',
  detail: detailOf(response, error),
});
const rejectedByProvider: OutcomeRule = (response, error) =>
  rejected('rejected-by-provider', response, error);
const wrongCredential: OutcomeRule = (response, error) =>
  rejected('wrong-credential', response, error);
const gone: OutcomeRule = (response, error) => {
  return { kind: 'gone', flag: 'uninstalled', detail: detailOf(response, error) };
};
const unavailable: OutcomeRule = (response, error) => {
  const { retryAfterMs: retryAfter } = response;
  const deferral = retryAfter !== undefined && { afterMs: retryAfter };
  return { kind: 'retry', scope: 'upstream', detail: detailOf(response, error), ...deferral };
};

/** Reads the subject of INVALID_ARGUMENT from its text; no field names it. */
const invalidArgument: OutcomeRule = (response, error) => {
  const blamesToken = error.fields.some((field) => field.endsWith('token'));
  if (blamesToken || /registration token/i.test(error.message)) {
    return rejected('bad-provider-address', response, error);
  }
  if (/too (?:big|large|long)|exceed/i.test(error.message)) {
    return rejected('payload-too-large', response, error);
  }
  return rejectedByProvider(response, error);
};

/** Rules by FCM's error code ("Error codes for the HTTP v1 API"). */
const BY_FCM_CODE = new Map<string, OutcomeRule>([
  ['UNREGISTERED', gone],
  ['SENDER_ID_MISMATCH', wrongCredential],
  ['INVALID_ARGUMENT', invalidArgument],
  ['QUOTA_EXCEEDED', unavailable],
  ['UNAVAILABLE', unavailable],
  ['INTERNAL', unavailable],
  ['THIRD_PARTY_AUTH_ERROR', authError],
]);

/**
 * Rules for errors without FcmError. They come from Google's front end and concern our project or our token, never a
 * device.
 */
const BY_STATUS = new Map<string, OutcomeRule>([
  ['NOT_FOUND', authError],
  ['PERMISSION_DENIED', authError],
  ['UNAUTHENTICATED', authError],
  ['INVALID_ARGUMENT', invalidArgument],
  ['RESOURCE_EXHAUSTED', unavailable],
]);

/** Maps a response of FCM, or of Google's token server, to an attempt. */
export function fcmOutcome(response: FcmResponse): Attempt {
  switch (response.kind) {
    case 'accepted':
      return { kind: 'sent' };
    case 'response':
      return outcomeOfResponse(response);
    case 'no-token':
      return outcomeOfTokenResponse(response);
    case 'no-response':
      return { kind: 'retry', scope: 'upstream', detail: response.detail };
    case 'timeout': {
      const { detail } = response;
      return { kind: 'retry', scope: 'upstream', detail, afterMs: RETRY_AFTER_TIMEOUT_MS };
    }
    case 'malformed': {
      const { detail } = response;
      return { kind: 'rejected', reason: 'rejected-by-provider', detail, isUnsent: true };
    }
    case 'bad-credential':
      return { kind: 'auth-error', detail: response.detail };
    case 'withheld':
      return WITHHELD;
  }
}

/** Checks whether the access token was refused, and not a third party's key that FCM uses: both are a 401. */
export function isAccessTokenRejected(response: FcmResponse): boolean {
  return (
    response.kind === 'response' &&
    response.status === 401 &&
    parseGoogleError(response.body)?.fcmCode === undefined
  );
}

function outcomeOfResponse(response: ErrorResponse): Attempt {
  const error = parseGoogleError(response.body);
  // A response that isn't Google's, or a failure of its servers: no recipient fails.
  if (error === undefined) return outcomeWithoutError(response);
  const rule = BY_FCM_CODE.get(error.fcmCode ?? '') ?? BY_STATUS.get(error.status ?? '');
  if (rule !== undefined) return rule(response, error);
  const blamesRequest = response.status >= 400 && response.status < 500 && response.status !== 429;
  return (blamesRequest ? rejectedByProvider : unavailable)(response, error);
}

function outcomeWithoutError(response: ErrorResponse): Attempt {
  const rule = response.status === 401 || response.status === 403 ? authError : unavailable;
  return rule(response, { message: '', fields: [] });
}

function outcomeOfTokenResponse(response: ErrorResponse): Attempt {
  const { data } = oauthError.safeParse(response.body);
  const error = { message: data?.error ?? '', fields: [] };
  const isClientError = data !== undefined && response.status >= 400 && response.status < 500;
  const isAuthError =
    isClientError && response.status !== 429 && !OAUTH_TRANSIENT_ERRORS.includes(data.error);
  return (isAuthError ? authError : unavailable)(response, error);
}

function parseGoogleError(body: unknown): GoogleError | undefined {
  const { data } = googleError.safeParse(body);
  if (data === undefined) return undefined;
  const { status, message, details } = data.error;
  const fcmCode = details.find((detail) => detail['@type'] === FCM_ERROR)?.errorCode;
  const fields = details.flatMap(({ fieldViolations }) =>
    fieldViolations.map(({ field }) => field),
  );
  return { fcmCode, status, message, fields };
}

function detailOf({ status, kind }: ErrorResponse, error: GoogleError): string {
  const parts = [error.fcmCode ?? error.status ?? '', error.message];
  const text = `${status} ${parts.filter((part) => part !== '').join(': ')}`.trim();
  return kind === 'no-token' ? `no access token: ${text}` : text;
}

function rejected(
  reason: Extract<Attempt, { kind: 'rejected' }>['reason'],
  response: ErrorResponse,
  error: GoogleError,
): Attempt {
  return { kind: 'rejected', reason, detail: detailOf(response, error) };
}
