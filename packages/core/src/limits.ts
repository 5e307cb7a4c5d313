/** Limits of the specification (section 8) and of this project. Times are in seconds unless the name ends in Ms. */
export const LIMITS = {
  /** Days after which an app may have devices deleted that were not seen. */
  pruneDaysMin: 7,
  pruneDaysMax: 3_650,
  activeSecondsMin: 60,
  activeSecondsMax: 3_650 * 86_400,
  tokensPerPush: 100_000,
  topicsPerPush: 100,
  payloadCharacters: 4_096,
  payloadDepth: 2_048,
  /** Characters of each object that is merged over what a channel makes of a push, and levels of nesting in it. */
  providerFieldCharacters: 8_192,
  providerFieldDepth: 32,
  timeToLiveDefault: 30 * 86_400,
  timeToLiveMax: 365 * 86_400,
  collapseKeyCharacters: 32,
  tokensPerPresence: 1_000,
  topicsPerSubscribe: 100,
  /** Topics that a device can subscribe to. */
  topicsPerDevice: 1_000,
  /** Maximum `expires_in` of an iOS device, in seconds. */
  deviceLifetimeSeconds: 365 * 86_400,
  subscribersPerPage: 1_000,
  pendingDevices: 1_000,
  /** Pending deliveries of one device, about: inboxes are counted by sample. Further ones fail with `inbox-full`. */
  pendingPerDevice: 1_000,
  deviceTokenCharacters: 64,
  /**
   * Recipients of one batch: a measured compromise between jobs per push, size of a presence lookup and size of a
   * retry.
   */
  batchRecipients: 1_000,
  /** Time for which a push with time to live 0 is sent. */
  sendNowSeconds: 5,
  /** Requests of an account by plan; an account may have a custom limit. */
  requestsPerMinute: { trial: 60, pro: 800 },
  /** Invalid API keys of a client address, above which AUTH_LIMIT_EXCEEDED is returned. */
  wrongKeysPerHour: 100,
  /** Registrations from one client address: thousands of phones share a carrier's NAT. */
  registrationsPerAddressHour: 3_000,
  /** Topic changes that devices make themselves, per device and per client address. */
  topicChangesPerDeviceMinute: 60,
  topicChangesPerAddressMinute: 3_000,
  /** Registrations of one app; an app may have a custom limit. */
  registrationsPerAppHour: 600_000,
} as const;

/** Format of device tokens. They are part of keys in which `:` and white space are separators. */
export const DEVICE_TOKEN = /^[0-9A-Za-z_-]{1,64}$/;

/** Format of topic names (specification, section 2). */
export const TOPIC_NAME = /^[a-zA-Z0-9\-_.]{1,100}$/;
