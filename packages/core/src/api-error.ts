/**
 * All errors of the API: code → HTTP status and text (specification, section 7). Errors that the specification does
 * not name have the same form, for clients that parse every response.
 */
export const API_ERRORS = {
  INVALID_PARAM: [400, 'An API parameter is missing or invalid.'],
  NO_RECIPIENTS: [
    400,
    'No devices matched the specified condition. Check the device tokens, and that the topics have subscribers.',
  ],
  NO_APNS_AUTH: [400, 'The push targets iOS devices, but the app has no APNs credentials.'],
  NO_WEB_PUSH_AUTH: [400, 'The app has no key pair for Web Push.'],
  PAYLOAD_LIMIT_EXCEEDED: [400, 'The payload ("data") exceeds the limit for stringified JSON.'],
  INVALID_PUSH_ID: [400, 'The push notification ID provided is invalid.'],
  PUSH_SCHEDULED: [
    400,
    'The push notification is scheduled for future delivery. Retry after the scheduled time.',
  ],
  APP_MISMATCH: [400, 'The device token is registered to a different app.'],
  INVALID_WEBHOOK_ID: [400, 'The webhook ID provided is invalid.'],
  WEBHOOK_LIMIT_EXCEEDED: [400, 'The app has the maximum number of webhooks.'],
  INVALID_DEVICE_TOKEN: [400, 'The provided device token is invalid.'],
  INVALID_DEVICE_AUTH: [400, 'The device token and auth key do not match.'],
  INVALID_APP_ID: [400, 'The app ID provided is invalid.'],
  NO_RESULTS: [400, 'We could not find any devices with those tokens.'],
  INVALID_API_KEY: [403, 'The Secret API Key you used to authenticate is invalid.'],
  AUTH_LIMIT_EXCEEDED: [
    403,
    'Too many attempts with an invalid Secret API Key within the past hour.',
  ],
  ACCOUNT_SUSPENDED: [403, 'The account is suspended.'],
  REGISTRATION_CLOSED: [403, 'The app does not accept new devices.'],
  NOT_FOUND: [404, 'The endpoint does not exist.'],
  METHOD_NOT_ALLOWED: [405, 'The endpoint does not support this method.'],
  REQUEST_TIMEOUT: [408, 'The request was not received completely in time.'],
  BODY_TOO_LARGE: [413, 'The request body is too large.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'The request body must be application/json.'],
  HEADERS_TOO_LARGE: [431, 'The request line and headers are too large.'],
  RATE_LIMIT_EXCEEDED: [429, 'The limit of requests per minute was exceeded.'],
  INTERNAL_SERVER_ERROR: [
    500,
    'An unexpected error occurred. The request may or may not have taken effect.',
  ],
  SERVICE_UNAVAILABLE: [503, 'The service is temporarily unavailable. Retry the request shortly.'],
} as const satisfies Record<string, readonly [number, string]>;

export type ApiErrorCode = keyof typeof API_ERRORS;

/** An error response. `message` replaces the table's text with a more specific one. */
export class ApiError extends Error {
  readonly code: ApiErrorCode;
  readonly status: number;
  /** Time after which to retry; undefined if it is unknown or a retry is useless. */
  readonly retryAfterSeconds: number | undefined;
  /** Name of the invalid parameter as the caller wrote it; never its value. */
  readonly parameter: string | undefined;

  constructor(
    code: ApiErrorCode,
    message?: string,
    retryAfterSeconds?: number,
    parameter?: string,
  ) {
    // An expected error: its stack is never read, and capturing it would cost more than the rest of the response.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message ?? API_ERRORS[code][1]);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.status = API_ERRORS[code][0];
    this.retryAfterSeconds = retryAfterSeconds;
    this.parameter = parameter;
  }
}
