/** The specification's limits (section 8) and our own, in one place. Times are in seconds unless the name says Ms. */
export const LIMITS = {
  tokensPerPush: 100_000,
  topicsPerPush: 100,
  payloadCharacters: 4_096,
  payloadDepth: 2_048,
  timeToLiveDefault: 30 * 86_400,
  timeToLiveMax: 365 * 86_400,
  collapseKeyCharacters: 32,
  tokensPerPresence: 1_000,
  topicsPerSubscribe: 100,
  subscribersPerPage: 1_000,
  pendingDevices: 1_000,
  /** Deliveries that wait for one device; what comes beyond fails visibly. */
  pendingPerDevice: 1_000,
  deviceTokenCharacters: 64,
  /** Recipients of one batch: the flat optimum of queue, presence look-up and retry unit. */
  batchRecipients: 1_000,
  /** How long a push with time to live 0 is worked. */
  sendNowSeconds: 5,
  /** Requests of an account, by its plan; an account may have a number of its own. */
  requestsPerMinute: { trial: 60, pro: 800 },
  /** Wrong API keys of a client address, after which they are told apart from a slip. */
  wrongKeysPerHour: 100,
  /** New devices from one client address: a carrier's NAT stands for thousands of phones. */
  registrationsPerAddressHour: 3_000,
  /** New devices of one app; an app may have a number of its own. */
  registrationsPerAppHour: 600_000,
} as const;

/** A token that we can keep: it is part of keys, where `:` and white space separate. */
export const DEVICE_TOKEN = /^[0-9A-Za-z_-]{1,64}$/;

/** A topic's name (specification, section 2). */
export const TOPIC_NAME = /^[a-zA-Z0-9\-_.]{1,100}$/;
