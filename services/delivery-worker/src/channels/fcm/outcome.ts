import { z } from 'zod';
import type { Attempt } from '../../deliver/provider.ts';

/** What came of one message. */
export type FcmAnswer =
  | { kind: 'accepted' }
  /** An error; `body` is its JSON, or text. */
  | { kind: 'answered'; status: number; body: unknown; retryAfterMs?: number | undefined }
  /** No answer came, and nobody knows. */
  | { kind: 'lost'; detail: string }
  /** The library found the message malformed and sent nothing. */
  | { kind: 'malformed'; detail: string }
  /** No access token was got; `body` is the token server's answer. */
  | { kind: 'no-token'; status: number; body: unknown; retryAfterMs?: number | undefined }
  /** No access token can be asked for: the key doesn't sign. */
  | { kind: 'unusable'; detail: string };

type Answered = Extract<FcmAnswer, { kind: 'answered' | 'no-token' }>;
type Rule = (answer: Answered, fault: Fault) => Attempt;

/** An error of a Google API (google.rpc.Status). */
interface Fault {
  /** FcmError.errorCode; only FCM itself gives it. */
  fcmCode?: string | undefined;
  status?: string | undefined;
  message: string;
  /** Fields of the request that are found wrong (google.rpc.BadRequest). */
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
/** Codes of RFC 6749, 4.1.2.1, that are about the server and not about who asks. */
const OAUTH_UNWELL = ['server_error', 'temporarily_unavailable', 'internal_failure'];

const refused: Rule = (answer, fault) => ({ kind: 'refused', detail: detailOf(answer, fault) });
const byProvider: Rule = (answer, fault) => rejected('rejected-by-provider', answer, fault);
const wrongCredential: Rule = (answer, fault) => rejected('wrong-credential', answer, fault);
const gone: Rule = () => ({ kind: 'gone', flag: 'uninstalled' });
const unwell: Rule = (answer, fault) => {
  const { retryAfterMs: after } = answer;
  const wait = after !== undefined && { afterMs: after };
  return { kind: 'retry', scope: 'line', detail: detailOf(answer, fault), ...wait };
};

/** INVALID_ARGUMENT says by its text only what it is about. */
const invalidArgument: Rule = (answer, fault) => {
  const blamesToken = fault.fields.some((field) => field.endsWith('token'));
  if (blamesToken || /registration token/i.test(fault.message)) {
    return rejected('bad-provider-address', answer, fault);
  }
  if (/too (?:big|large|long)|exceed/i.test(fault.message)) {
    return rejected('payload-too-large', answer, fault);
  }
  return byProvider(answer, fault);
};

/** FCM, "Error codes for the HTTP v1 API". */
const BY_FCM_CODE = new Map<string, Rule>([
  ['UNREGISTERED', gone],
  ['SENDER_ID_MISMATCH', wrongCredential],
  ['INVALID_ARGUMENT', invalidArgument],
  ['QUOTA_EXCEEDED', unwell],
  ['UNAVAILABLE', unwell],
  ['INTERNAL', unwell],
  ['THIRD_PARTY_AUTH_ERROR', refused],
]);

/** Errors without FcmError are those of Google's front: about our project or our token, never about a device. */
const BY_STATUS = new Map<string, Rule>([
  ['NOT_FOUND', refused],
  ['PERMISSION_DENIED', refused],
  ['UNAUTHENTICATED', refused],
  ['INVALID_ARGUMENT', invalidArgument],
  ['RESOURCE_EXHAUSTED', unwell],
]);

/** An answer of FCM, or of Google's token server, in our words. */
export function fcmOutcome(answer: FcmAnswer): Attempt {
  switch (answer.kind) {
    case 'accepted':
      return { kind: 'sent' };
    case 'answered':
      return outcomeOfAnswer(answer);
    case 'no-token':
      return outcomeOfTokenAnswer(answer);
    case 'lost':
      return { kind: 'retry', scope: 'line', detail: answer.detail };
    case 'malformed':
      return { kind: 'rejected', reason: 'rejected-by-provider', detail: answer.detail };
    case 'unusable':
      return { kind: 'refused', detail: answer.detail };
  }
}

/** Whether the access token was refused, not a key that FCM uses in its turn: both are a 401. */
export function isTokenRefused(answer: FcmAnswer): boolean {
  return (
    answer.kind === 'answered' &&
    answer.status === 401 &&
    faultOf(answer.body)?.fcmCode === undefined
  );
}

function outcomeOfAnswer(answer: Answered): Attempt {
  const fault = faultOf(answer.body);
  // Not Google's word, or an error of its machines: nobody is blamed for it.
  if (fault === undefined) return outcomeWithoutFault(answer);
  const rule = BY_FCM_CODE.get(fault.fcmCode ?? '') ?? BY_STATUS.get(fault.status ?? '');
  if (rule !== undefined) return rule(answer, fault);
  const blamesRequest = answer.status >= 400 && answer.status < 500 && answer.status !== 429;
  return (blamesRequest ? byProvider : unwell)(answer, fault);
}

function outcomeWithoutFault(answer: Answered): Attempt {
  const rule = answer.status === 401 || answer.status === 403 ? refused : unwell;
  return rule(answer, { message: '', fields: [] });
}

function outcomeOfTokenAnswer(answer: Answered): Attempt {
  const { data } = oauthError.safeParse(answer.body);
  const fault = { message: data?.error ?? '', fields: [] };
  const isOurs = data !== undefined && answer.status >= 400 && answer.status < 500;
  const isRefusal = isOurs && answer.status !== 429 && !OAUTH_UNWELL.includes(data.error);
  return (isRefusal ? refused : unwell)(answer, fault);
}

function faultOf(body: unknown): Fault | undefined {
  const { data } = googleError.safeParse(body);
  if (data === undefined) return undefined;
  const { status, message, details } = data.error;
  const fcmCode = details.find((detail) => detail['@type'] === FCM_ERROR)?.errorCode;
  const fields = details.flatMap(({ fieldViolations }) =>
    fieldViolations.map(({ field }) => field),
  );
  return { fcmCode, status, message, fields };
}

function detailOf({ status, kind }: Answered, fault: Fault): string {
  const words = [fault.fcmCode ?? fault.status ?? `status ${status}`, fault.message];
  const said = words.filter((word) => word !== '').join(': ');
  return kind === 'no-token' ? `no access token: ${said}` : said;
}

function rejected(
  reason: Extract<Attempt, { kind: 'rejected' }>['reason'],
  answer: Answered,
  fault: Fault,
): Attempt {
  return { kind: 'rejected', reason, detail: detailOf(answer, fault) };
}
