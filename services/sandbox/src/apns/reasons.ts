import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';

/** APNs error reasons with their status (Apple, "Handling notification responses from APNs"). */
const STATUSES = {
  BadChannelId: 400,
  BadCollapseId: 400,
  BadDeviceToken: 400,
  BadExpirationDate: 400,
  BadMessageId: 400,
  BadPriority: 400,
  BadTopic: 400,
  CannotCreateChannelConfig: 400,
  ChannelNotRegistered: 400,
  DeviceTokenNotForTopic: 400,
  DuplicateHeaders: 400,
  IdleTimeout: 400,
  InvalidPushType: 400,
  MissingChannelId: 400,
  MissingDeviceToken: 400,
  MissingPushType: 400,
  MissingTopic: 400,
  PayloadEmpty: 400,
  TopicDisallowed: 400,
  TopicMismatch: 400,
  BadCertificate: 403,
  BadCertificateEnvironment: 403,
  BadEnvironmentKeyIdInToken: 403,
  ExpiredProviderToken: 403,
  FeatureNotEnabled: 403,
  Forbidden: 403,
  InvalidProviderToken: 403,
  MissingProviderToken: 403,
  UnrelatedKeyIdInToken: 403,
  BadPath: 404,
  MethodNotAllowed: 405,
  ExpiredToken: 410,
  Unregistered: 410,
  PayloadTooLarge: 413,
  TooManyProviderTokenUpdates: 429,
  TooManyRequests: 429,
  InternalServerError: 500,
  ServiceUnavailable: 503,
  Shutdown: 503,
} as const;
export type Reason = keyof typeof STATUSES;

/**
 * Creates an error response.
 *
 * @param timestampMs for status 410: the time at which the token became inactive, Unix milliseconds; default: now
 */
export function createApnsError(reason: Reason, timestampMs?: number): ProviderResponse {
  const status = STATUSES[reason];
  const since = status === 410 ? { timestamp: timestampMs ?? Date.now() } : {};
  return createJsonResponse(status, { reason, ...since });
}

/** Finds a response by its reason; `Success` is status 200. */
export function findCannedApnsResponse(
  name: string,
  timestampMs: number | undefined,
): ProviderResponse | undefined {
  if (name === 'Success') return { status: 200, headers: {}, body: '' };
  return Object.hasOwn(STATUSES, name) ? createApnsError(name as Reason, timestampMs) : undefined;
}
