import { jsonVerdict, type Verdict } from '../answer/verdict.ts';

/** Google's status words with their HTTP status (google.rpc.Code). */
const HTTP_STATUSES = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const;
type StatusWord = keyof typeof HTTP_STATUSES;

interface Answer {
  status: StatusWord;
  message: string;
  /** FCM's own code in the details; general errors of Google's have none. */
  fcm: boolean;
}

const ANSWERS: Record<string, Answer> = {
  UNREGISTERED: { status: 'NOT_FOUND', message: 'Requested entity was not found.', fcm: true },
  INVALID_ARGUMENT: {
    status: 'INVALID_ARGUMENT',
    message: 'The registration token is not a valid FCM registration token',
    fcm: true,
  },
  SENDER_ID_MISMATCH: { status: 'PERMISSION_DENIED', message: 'SenderId mismatch', fcm: true },
  QUOTA_EXCEEDED: { status: 'RESOURCE_EXHAUSTED', message: 'Quota exceeded.', fcm: true },
  UNAVAILABLE: {
    status: 'UNAVAILABLE',
    message: 'The service is currently unavailable.',
    fcm: true,
  },
  INTERNAL: { status: 'INTERNAL', message: 'Internal error encountered.', fcm: true },
  THIRD_PARTY_AUTH_ERROR: {
    status: 'UNAUTHENTICATED',
    message: 'Request is missing required authentication credential of a third party.',
    fcm: true,
  },
  UNAUTHENTICATED: {
    status: 'UNAUTHENTICATED',
    message:
      'Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.',
    fcm: false,
  },
  NOT_FOUND: { status: 'NOT_FOUND', message: 'Requested entity was not found.', fcm: false },
  PERMISSION_DENIED: {
    status: 'PERMISSION_DENIED',
    message: "Permission 'cloudmessaging.messages.create' denied on resource.",
    fcm: false,
  },
};

const FCM_ERROR = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';
const BAD_REQUEST = 'type.googleapis.com/google.rpc.BadRequest';

/** An answer by its code; FCM's own carry an FcmError. `OK` is 200. */
export function namedFcm(name: string): Verdict | undefined {
  if (name === 'OK') return jsonVerdict(200, { name: 'projects/carillon-sandbox/messages/0' });
  return Object.hasOwn(ANSWERS, name) ? fcmError(name) : undefined;
}

/** An error as Google's API gives it (AIP-193). */
export function fcmError(name: string): Verdict {
  const { status, message, fcm } = ANSWERS[name] as Answer;
  const details = fcm ? [{ '@type': FCM_ERROR, errorCode: name }] : [];
  return googleError(status, message, details);
}

/** What is wrong with one field of a message. */
export function fieldFault(field: string, description: string): Verdict {
  const fieldViolations = [{ field, description }];
  return googleError('INVALID_ARGUMENT', description, [
    { '@type': FCM_ERROR, errorCode: 'INVALID_ARGUMENT' },
    { '@type': BAD_REQUEST, fieldViolations },
  ]);
}

function googleError(status: StatusWord, message: string, details: object[]): Verdict {
  const code = HTTP_STATUSES[status];
  const more = details.length === 0 ? {} : { details };
  return jsonVerdict(code, { error: { code, message, status, ...more } });
}
