import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { BAD_TOKEN } from './message-schema.ts';

/** Google's status codes with their HTTP status (google.rpc.Code). */
const HTTP_STATUSES = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  INTERNAL: 500,
  UNAVAILABLE: 503,
} as const;
type GoogleStatus = keyof typeof HTTP_STATUSES;

interface ErrorSpec {
  status: GoogleStatus;
  message: string;
  /** True if the details contain the FCM error code; Google's generic errors have none. */
  hasFcmCode: boolean;
}

const ERROR_SPECS: Record<string, ErrorSpec> = {
  UNREGISTERED: {
    status: 'NOT_FOUND',
    message: 'Requested entity was not found.',
    hasFcmCode: true,
  },
  INVALID_ARGUMENT: {
    status: 'INVALID_ARGUMENT',
    message: BAD_TOKEN,
    hasFcmCode: true,
  },
  SENDER_ID_MISMATCH: {
    status: 'PERMISSION_DENIED',
    message: 'SenderId mismatch',
    hasFcmCode: true,
  },
  QUOTA_EXCEEDED: { status: 'RESOURCE_EXHAUSTED', message: 'Quota exceeded.', hasFcmCode: true },
  UNAVAILABLE: {
    status: 'UNAVAILABLE',
    message: 'The service is currently unavailable.',
    hasFcmCode: true,
  },
  INTERNAL: { status: 'INTERNAL', message: 'Internal error encountered.', hasFcmCode: true },
  THIRD_PARTY_AUTH_ERROR: {
    status: 'UNAUTHENTICATED',
    message: 'Request is missing required authentication credential of a third party.',
    hasFcmCode: true,
  },
  UNAUTHENTICATED: {
    status: 'UNAUTHENTICATED',
    message:
      'Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.',
    hasFcmCode: false,
  },
  NOT_FOUND: { status: 'NOT_FOUND', message: 'Requested entity was not found.', hasFcmCode: false },
  PERMISSION_DENIED: {
    status: 'PERMISSION_DENIED',
    message: "Permission 'cloudmessaging.messages.create' denied on resource.",
    hasFcmCode: false,
  },
};

const FCM_ERROR_TYPE = 'type.googleapis.com/google.firebase.fcm.v1.FcmError';
const BAD_REQUEST_TYPE = 'type.googleapis.com/google.rpc.BadRequest';

/** Finds a response by its error code; `OK` is status 200. */
export function findCannedFcmResponse(name: string): ProviderResponse | undefined {
  if (name === 'OK')
    return createJsonResponse(200, { name: 'projects/carillon-sandbox/messages/0' });
  return Object.hasOwn(ERROR_SPECS, name) ? createFcmError(name) : undefined;
}

/** Creates an error in the format of Google's APIs (AIP-193). */
export function createFcmError(name: string): ProviderResponse {
  const { status, message, hasFcmCode } = ERROR_SPECS[name] as ErrorSpec;
  const details = hasFcmCode ? [{ '@type': FCM_ERROR_TYPE, errorCode: name }] : [];
  return createGoogleError(status, message, details);
}

/** Creates the error for one invalid field of a message. */
export function createFieldError(field: string, description: string): ProviderResponse {
  const fieldViolations = [{ field, description }];
  const response = createGoogleError('INVALID_ARGUMENT', description, [
    { '@type': FCM_ERROR_TYPE, errorCode: 'INVALID_ARGUMENT' },
    { '@type': BAD_REQUEST_TYPE, fieldViolations },
  ]);
  response.detail = description.includes(`'${field}'`) ? description : `${field}: ${description}`;
  return response;
}

function createGoogleError(
  status: GoogleStatus,
  message: string,
  details: object[],
): ProviderResponse {
  const code = HTTP_STATUSES[status];
  const more = details.length === 0 ? {} : { details };
  return createJsonResponse(code, { error: { code, message, status, ...more } });
}
