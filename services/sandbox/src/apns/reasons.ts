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

/** The part of a request that a reason refers to, and what it must be. Apple's responses have the reason alone. */
const REFUSED_PARTS: Partial<Record<Reason, string>> = {
  BadPath: ':path must be /3/device/ and a device token',
  MethodNotAllowed: ':method must be POST',
  MissingDeviceToken: ':path has no device token',
  BadDeviceToken: ':path must end with a device token, 32 to 100 bytes in hexadecimal',
  MissingTopic: 'apns-topic is missing, and no client certificate implies it',
  BadTopic: 'apns-topic is no bundle id',
  TopicDisallowed: 'apns-topic does not end as apns-push-type needs it',
  DeviceTokenNotForTopic: 'apns-topic is not the one of the device token in :path',
  MissingPushType: 'apns-push-type is missing',
  InvalidPushType: 'apns-push-type is missing, unknown, or not what payload.aps does',
  BadPriority: 'apns-priority must be 10, 5 or 1; 5 or 1 if apns-push-type is background',
  BadExpirationDate: 'apns-expiration must be a Unix time in seconds',
  BadMessageId: 'apns-id must be a UUID',
  BadCollapseId: 'apns-collapse-id is over 64 bytes',
  PayloadTooLarge: 'payload is over 4,096 bytes, or 5,120 if apns-push-type is voip',
  PayloadEmpty: 'payload must be a JSON object',
  MissingProviderToken: 'authorization is missing, and there is no client certificate',
  InvalidProviderToken: 'authorization has another key id, team id or signature',
  ExpiredProviderToken: 'authorization is over an hour old',
  BadCertificate: 'the client certificate is not accepted',
};

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

/** Describes what a reason refers to, for the request log: the reason, the header or part, and what it must be. */
export function describeReason(reason: Reason): string {
  return [reason, REFUSED_PARTS[reason]].filter((text) => text !== undefined).join(': ');
}

/** Finds a response by its reason; `Success` is status 200. */
export function findCannedApnsResponse(
  name: string,
  timestampMs: number | undefined,
): ProviderResponse | undefined {
  if (name === 'Success') return { status: 200, headers: {}, body: '' };
  return Object.hasOwn(STATUSES, name) ? createApnsError(name as Reason, timestampMs) : undefined;
}
