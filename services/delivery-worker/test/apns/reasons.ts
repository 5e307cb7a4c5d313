const rejected = (reason: string) => ({ kind: 'rejected', reason });
const AUTH_ERROR = { kind: 'auth-error' };
const UNAVAILABLE = { kind: 'retry', scope: 'upstream' };
const GONE = { kind: 'gone', flag: 'uninstalled' };

/** Every row of Apple's table (Handling notification responses from APNs) for device pushes, and its meaning. */
export const REASONS: [number, string, { kind: string }][] = [
  [400, 'BadCollapseId', rejected('rejected-by-provider')],
  [400, 'BadDeviceToken', rejected('bad-provider-address')],
  [400, 'BadExpirationDate', rejected('rejected-by-provider')],
  [400, 'BadMessageId', rejected('rejected-by-provider')],
  [400, 'BadPriority', rejected('rejected-by-provider')],
  [400, 'BadTopic', rejected('bad-provider-address')],
  [400, 'DeviceTokenNotForTopic', rejected('wrong-credential')],
  [400, 'DuplicateHeaders', rejected('rejected-by-provider')],
  [400, 'IdleTimeout', UNAVAILABLE],
  [400, 'InvalidPushType', rejected('rejected-by-provider')],
  [400, 'MissingDeviceToken', rejected('bad-provider-address')],
  [400, 'MissingTopic', rejected('bad-provider-address')],
  [400, 'PayloadEmpty', rejected('rejected-by-provider')],
  [400, 'TopicDisallowed', rejected('wrong-credential')],
  [403, 'BadCertificate', AUTH_ERROR],
  [403, 'BadCertificateEnvironment', AUTH_ERROR],
  [403, 'ExpiredProviderToken', AUTH_ERROR],
  [403, 'Forbidden', AUTH_ERROR],
  [403, 'InvalidProviderToken', AUTH_ERROR],
  [403, 'MissingProviderToken', AUTH_ERROR],
  [403, 'UnrelatedKeyIdInToken', AUTH_ERROR],
  [403, 'BadEnvironmentKeyIdInToken', AUTH_ERROR],
  [404, 'BadPath', rejected('rejected-by-provider')],
  [405, 'MethodNotAllowed', rejected('rejected-by-provider')],
  [410, 'ExpiredToken', GONE],
  [410, 'Unregistered', GONE],
  [413, 'PayloadTooLarge', rejected('payload-too-large')],
  [429, 'TooManyProviderTokenUpdates', UNAVAILABLE],
  [429, 'TooManyRequests', { kind: 'retry', scope: 'recipient' }],
  [500, 'InternalServerError', UNAVAILABLE],
  [503, 'ServiceUnavailable', UNAVAILABLE],
  [503, 'Shutdown', UNAVAILABLE],
];
