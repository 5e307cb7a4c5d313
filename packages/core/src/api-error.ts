/**
 * Every error the API answers: code → HTTP status and text (specification, section 7).
 * Those that the specification doesn't name follow its manner, for clients that parse every answer.
 */
export const API_ERRORS = {
  INVALID_PARAM: [400, 'An API parameter is missing or invalid.'],
  NO_RECIPIENTS: [
    400,
    'No devices matched the specified condition. Check the device tokens, and that the topics have subscribers.',
  ],
  NO_APNS_AUTH: [
    400,
    'The push targets iOS devices, but no APNs credentials are configured for this app.',
  ],
  NO_WEB_PUSH_AUTH: [400, 'No key pair for Web Push is configured for this app.'],
  PAYLOAD_LIMIT_EXCEEDED: [
    400,
    'The payload ("data") is longer than the limit for stringified JSON.',
  ],
  INVALID_PUSH_ID: [400, 'The push notification ID provided is invalid.'],
  PUSH_SCHEDULED: [
    400,
    'The push notification is scheduled for future delivery. Ask again after the scheduled time.',
  ],
  APP_MISMATCH: [400, 'The device token is registered to a different app.'],
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
  REGISTRATION_CLOSED: [403, 'The app takes no new devices at the moment.'],
  NOT_FOUND: [404, 'There is no such endpoint.'],
  METHOD_NOT_ALLOWED: [405, 'This endpoint does not answer that method.'],
  BODY_TOO_LARGE: [413, 'The request body is too large.'],
  UNSUPPORTED_MEDIA_TYPE: [415, 'The request body must be application/json.'],
  HEADERS_TOO_LARGE: [431, 'The request line and headers are too large.'],
  RATE_LIMIT_EXCEEDED: [429, 'The limit of requests per minute is exceeded.'],
  INTERNAL_SERVER_ERROR: [
    500,
    'An unexpected incident occurred; whether the request took effect is not known.',
  ],
  SERVICE_UNAVAILABLE: [503, 'The service is temporarily unavailable. Try again shortly.'],
} as const satisfies Record<string, readonly [number, string]>;

export type ApiErrorCode = keyof typeof API_ERRORS;

/** An answer other than success. `message` replaces the table's text where the caller knows more. */
export class ApiError extends Error {
  readonly code: ApiErrorCode;
  readonly status: number;
  /** When to try again; undefined: unknown, or never. */
  readonly retryAfterSeconds: number | undefined;

  constructor(code: ApiErrorCode, message?: string, retryAfterSeconds?: number) {
    // An answer, not a surprise: nobody reads its stack, which would cost more than the rest of a refusal.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message ?? API_ERRORS[code][1]);
    Error.stackTraceLimit = stackTraceLimit;
    this.code = code;
    this.status = API_ERRORS[code][0];
    this.retryAfterSeconds = retryAfterSeconds;
  }
}
