const rejected = (reason: string) => ({ kind: 'rejected', reason });
const REFUSED = { kind: 'refused' };
const UNWELL = { kind: 'retry', scope: 'line' };
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
  [400, 'IdleTimeout', UNWELL],
  [400, 'InvalidPushType', rejected('rejected-by-provider')],
  [400, 'MissingDeviceToken', rejected('bad-provider-address')],
  [400, 'MissingTopic', rejected('bad-provider-address')],
  [400, 'PayloadEmpty', rejected('rejected-by-provider')],
  [400, 'TopicDisallowed', rejected('wrong-credential')],
  [403, 'BadCertificate', REFUSED],
  [403, 'BadCertificateEnvironment', REFUSED],
  [403, 'ExpiredProviderToken', REFUSED],
  [403, 'Forbidden', REFUSED],
  [403, 'InvalidProviderToken', REFUSED],
  [403, 'MissingProviderToken', REFUSED],
  [403, 'UnrelatedKeyIdInToken', REFUSED],
  [403, 'BadEnvironmentKeyIdInToken', REFUSED],
  [404, 'BadPath', rejected('rejected-by-provider')],
  [405, 'MethodNotAllowed', rejected('rejected-by-provider')],
  [410, 'ExpiredToken', GONE],
  [410, 'Unregistered', GONE],
  [413, 'PayloadTooLarge', rejected('payload-too-large')],
  [429, 'TooManyProviderTokenUpdates', UNWELL],
  [429, 'TooManyRequests', { kind: 'retry', scope: 'recipient' }],
  [500, 'InternalServerError', UNWELL],
  [503, 'ServiceUnavailable', UNWELL],
  [503, 'Shutdown', UNWELL],
];
