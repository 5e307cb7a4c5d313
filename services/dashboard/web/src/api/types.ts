/** Responses of the dashboard's API, as they are on the wire. Times are unix milliseconds. */

export type Role = 'viewer' | 'operator' | 'admin' | 'owner';
export type Channel = 'mqtt' | 'apns' | 'fcm' | 'web-push';
export type ProviderChannel = Exclude<Channel, 'mqtt'>;

/** One page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; absent when this page is the last. */
  next?: string;
}

export interface SessionOperator {
  id: string;
  name: string;
  role: Role;
  accounts: readonly string[] | 'all';
}

export interface Session {
  operator: SessionOperator;
  csrf: string;
  /** Name of the installation, such as production. */
  environment: string;
  /** Address of the HTTP API; absent when the server has none. */
  apiUrl?: string;
}

/** Purpose of a one-time link. */
export interface SetupLink {
  valid: boolean;
  kind?: 'setup' | 'invite' | 'reset';
  role?: Role;
  /** The operator whose password is set. */
  name?: string;
}

/** Ways to log in to the console, as far as they are known without a session. */
export interface LoginMethods {
  /** There is no operator yet: only the set-up link helps. */
  setupNeeded: boolean;
  openId: { label: string } | null;
}

export interface Operator {
  id: string;
  name: string;
  role: Role;
  accounts: readonly string[] | 'all';
  login: 'password' | 'openid';
  disabled: boolean;
  createdAt: number;
  lastLoginAt?: number;
}

/** A one-time link that nobody has used yet. */
export interface OpenLink {
  id: string;
  kind: 'invite' | 'reset';
  role: Role;
  accounts: readonly string[] | 'all';
  /** Name of the operator whose password it sets. */
  operator?: string;
  /** Name of the operator who has made it; absent for links of the command line. */
  by?: string;
  expiresAt: number;
}

export interface AuditEntry {
  id: string;
  at: number;
  actor: { id: string; name: string };
  action: string;
  account?: string;
  facts: Record<string, string | number | boolean>;
  address: string;
  requestId: string;
  /** `done`, the code of an error, or `unknown`: under way, or its process died. */
  result: string;
}

export interface Account {
  id: string;
  name: string;
  plan: 'trial' | 'pro';
  /** Requests per minute; null: unlimited; absent: the limit of the plan. */
  limit?: number | null;
  suspended: boolean;
}

export interface App {
  id: string;
  account: string;
  name: string;
  payloadLimit: number;
  dataString: boolean;
  registration: 'open' | 'closed';
  registrationsPerHour: number | null;
  fcmFallback: number | 'off';
  bundleIds: string[];
  webHosts: string[];
  createdAt: number;
}

export interface ApiKey {
  id: string;
  app: string;
  lastFour: string;
  createdAt: number;
  /** Up to a minute late; absent when no use is recorded. */
  lastUsedAt?: number;
  revokedAt?: number;
}

export type AppleEnvironment = 'development' | 'production';

export interface Credential {
  id: string;
  app: string;
  channel: ProviderChannel;
  environment?: AppleEnvironment;
  changedAt: number;
  refused?: { detail: string; at: number };
  /** Further parts that may be shown, such as keyId. */
  [about: string]: unknown;
}

/** A webhook without its secrets, and of its address only the host. Times are ISO 8601. */
export interface Webhook {
  id: string;
  host: string;
  events: string[];
  state: 'on' | 'failing' | 'off';
  /** Reason why it is off: by an operator or the app, by a 410, or after five days of failures. */
  reason?: 'operator' | 'gone' | 'failing';
  offAt?: string;
  createdAt: string;
  /** Failed requests in a row. */
  failures?: number;
  failingSince?: string;
  retryAt?: string;
  last?: WebhookResponse;
  lastSuccessAt?: string;
  previousSecretEndsAt?: string;
  /** Pushes, batches and devices that are not reported to it yet. */
  pending: number;
  /** Events that were removed before they could be sent. */
  dropped?: number;
}

/** A receiver's response, or the code of the error. */
export interface WebhookResponse {
  at: string;
  status?: number;
  error?: string;
}

export interface Webhooks {
  items: Webhook[];
  /** Names of all events. */
  eventNames: string[];
  /** Webhooks that an app may have. */
  limit: number;
  /** `pending` is not counted further. */
  maxPendingCounted: number;
}

/** Recipients by outcome; outcomes without recipients are absent. */
export type Counts = Partial<Record<string, number>>;

/** Latencies from acceptance to receipt; null without a receipt. */
export interface Latency {
  p50Ms: number | null;
  p99Ms: number | null;
}

export interface OverviewMinute {
  at: number;
  accepted: number;
  delivered: number;
  sent: number;
  /** Recipients with any other outcome. */
  failed: Record<string, number>;
  /** Of `failed.failed`, by reason. */
  failureReasons: Record<string, number>;
  latency: Latency;
}

export interface Overview {
  readAt: number;
  /** `accounts`: the operator is of some accounts, and gets only their refused credentials. */
  scope: 'installation' | 'accounts';
  /** Time since which figures exist, which are lost with Redis; null without any. */
  since: number | null;
  minutes: OverviewMinute[];
  latency: Latency;
  /** Of the last 15, 30 and 60 minutes. */
  latencies: Partial<Record<number, Latency>>;
  /** Empty until a scheduler has counted. */
  channels: { channel: Channel; pending: number; oldestMs: number; deferred: number }[];
  gateways: { id: string; online: number }[];
  refusedCredentials: {
    app: string;
    appName: string;
    channel: string;
    message: string;
    refusedAt: number;
  }[];
  /** Time at which the refused credentials were read; null if the database has not responded yet. */
  refusedCredentialsAt: number | null;
}

/** Push without its payload. `app` is absent in lists of one app. */
export interface PushHead {
  id: string;
  app?: string;
  state: string;
  acceptedAt: number;
  dueAt?: number;
  expiresAt: number;
  devices: number;
  topics?: string[];
  counts?: Counts;
}

export interface TimelineEvent {
  at: number;
  what: string;
}

export interface RecipientStatus {
  outcome: string;
  reason?: string;
  milliseconds?: number;
  /** The provider's own words. */
  detail?: string;
  /** Number of times that a provider has deferred it. */
  tries?: number;
  /** ISO 8601. */
  nextTryAt?: string;
}

export interface Recipient extends RecipientStatus {
  token: string;
}

export interface PushDetails {
  push: PushHead;
  timeline: TimelineEvent[];
  batches: { total: number; open: number };
  counts: Counts;
  byChannel: Partial<Record<Channel, Counts>>;
  providerErrors: {
    texts: { text: string; count: number; isWaiting: boolean }[];
    recipients: Recipient[];
  };
  /** The old push that this one re-drives. */
  redriveOf?: string;
  redrivenAs: string[];
}

/** Payload of a push. */
export interface PushPayload {
  /** JSON text. */
  data: string;
  options: Record<string, unknown>;
}

export interface AcceptedPush {
  id: string;
  info: { devices: number; failed: string[] };
}

export interface Found {
  kind: 'push' | 'device' | 'app';
  id: string;
  label: string;
}

export interface Device {
  token: string;
  platform: string;
  registeredAt: number;
  lastActiveAt: number;
  uninstalled?: boolean;
  unsubscribed?: boolean;
}

export interface DeviceDetails extends Device {
  app: string;
  presence: { state: 'online'; gateway: string } | { state: 'offline' | 'unknown' };
  subscriptions: string[];
  /** Pushes in its inbox. */
  inbox: number;
  provider?: { channel: Channel; since: number };
}

export interface DevicePush extends RecipientStatus {
  id: string;
  state: string;
  acceptedAt: number;
  expiresAt: number;
}

/** The last pushes to a device, as far as they were searched. */
export interface DevicePushes {
  items: DevicePush[];
  /** Number of the app's newest pushes that were searched. */
  scanned: number;
  /** False if some with many recipients were not searched. */
  isComplete: boolean;
}

export interface Subscriber {
  token: string;
  platform: string;
}

export interface Topic {
  name: string;
  subscribers: number;
}

/** Failed recipients of one push on one channel. */
export interface FailedPush {
  push: string;
  channel: Channel;
  failedAt: number;
  failed: number;
  /** Those of them that a re-drive has sent to again. */
  redriven: number;
  reasons: { reason?: string; text: string; count: number }[];
}

export interface Redrive {
  id: string;
  app: string;
  state: 'running' | 'finished' | 'stopped';
  createdAt: number;
  endedAt?: number;
  /** Number of old pushes; absent while they are counted. */
  total?: number;
  /** Old pushes for which a new one was accepted. */
  done: number;
  /** Recipients of the new pushes. */
  recipients: number;
  skipped: number;
  skippedReasons: Record<string, number>;
}

/** Jobs of the queues in Redis, and the pending batches of the channels in MongoDB. */
export interface QueueFigures {
  readAt: number;
  queues: {
    name: string;
    waiting: number;
    active: number;
    delayed: number;
    /** Null without a waiting job. */
    oldestWaitingMs: number | null;
    hasWorker: boolean;
  }[];
  /** Empty until a scheduler has counted. */
  channels: Overview['channels'];
}

/** Body of every error response. */
export interface ErrorBody {
  code: string;
  error: string;
  requestId?: string;
}
