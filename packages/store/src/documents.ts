import type { BatchState, PushState } from '@carillon/core/batch';
import type { Channel, Platform, ProviderAddress, Way } from '@carillon/core/channels';
import type { AppleEnvironment } from '@carillon/core/channels/apns';
import type { FcmUse } from '@carillon/core/channels/fcm';
import type { Failure, OutcomeCounts, OutcomeName } from '@carillon/core/outcomes';
import type { ProxyWarning } from '@carillon/core/proxy-warnings';
import type { PushOptions } from '@carillon/core/push-options';
import type { SealedBox } from '@carillon/core/sealed-box';
import type { Sealed } from '@carillon/core/sealing';
import type { WebhookEvent } from '@carillon/core/webhooks';
import type { Binary } from 'mongodb';

/** An account: a customer with a plan and a limit of requests per minute. */
export interface AccountDocument {
  _id: string;
  name: string;
  plan: 'trial' | 'pro';
  /** Requests per minute instead of the plan's; null means unlimited. */
  limit?: number | null;
  suspendedAt?: Date;
  /** End of its last suspension: its devices could not register before. */
  resumedAt?: Date;
  createdAt: Date;
}

/** An app: the tenant that owns devices, topics and pushes. */
export interface AppDocument {
  _id: string;
  account: string;
  name: string;
  /** Characters of `data` instead of the specification's 4,096. */
  payloadLimit?: number;
  /** True if `data` may be a JSON string instead of an object. */
  dataString?: boolean;
  /** New devices are rejected. */
  registrationClosed?: boolean;
  /** New devices an hour instead of the default limit; null means unlimited. */
  registrationsPerHour?: number | null;
  /** Use of FCM for Android devices; null or absent means none. */
  fcm?: FcmUse | null;
  /** Messages of FCM show `title` and `message` of the payload as a notification. */
  fcmNotification?: boolean;
  /** Bundle ids that iOS apps may register with instead of the app id. */
  bundleIds?: string[];
  /** Host names that sites may register with instead of the app id. */
  webHosts?: string[];
  /** An iOS device of the app has connected over MQTT. */
  iosOverMqtt?: true;
  /** Days after which devices that were not seen are deleted (store/prune-devices). */
  pruneAfterDays?: number;
  /** Since when what providers accept is recorded with the devices, without a pause or a credential that failed in between. */
  acceptancesSince?: Date;
  /** Since when an operator holds its deliveries back; pushes are accepted meanwhile. */
  pausedAt?: Date;
  createdAt: Date;
}

/** An app's credential at a provider. */
export interface CredentialDocument {
  /** app:channel, or app:apns:environment */
  _id: string;
  app: string;
  channel: Channel;
  environment?: AppleEnvironment;
  /** A ProviderSecret of core/channels as JSON, sealed and bound to the id. */
  secret: Sealed;
  /** Fields that may be shown. */
  about: Record<string, string>;
  /** New with each change: a rejection or a cached client is valid for one revision. */
  revision: string;
  changedAt: Date;
  /** The provider's last rejection; sending is paused until `until`. `since` is the first one that no acceptance followed. */
  refused?: { detail: string; at: Date; until: Date; since?: Date };
}

/** A secret API key; the key itself is not stored. */
export interface KeyDocument {
  _id: string;
  app: string;
  /** HMAC-SHA-256 of the key under the pepper, hex. */
  digest: string;
  /** The key's last four characters, by which operators distinguish keys. */
  lastFour: string;
  createdAt: Date;
  /** Time of the last request with it, up to a minute late. */
  lastUsedAt?: Date;
  revokedAt?: Date;
}

export interface DeviceDocument {
  /** The device token. */
  _id: string;
  app: string;
  platform: Platform;
  /** SHA-256 of the device's auth key, hex; only imported devices have it. */
  authDigest?: string;
  /**
   * `since` is when the device registered it: providers also report tokens that were replaced since. Unique within the app,
   * together with `formerOf`: the token of the device itself, if it is a former one (store/former-devices).
   */
  provider?: ProviderAddress & { since: Date; formerOf?: string };
  /** Absent: the way of the platform. */
  way?: Way;
  uninstalled?: boolean;
  unsubscribed?: boolean;
  registeredAt: Date;
  /** It registered or was connected, to some hours; in an app that prunes devices, or its provider accepted a push, to a day. */
  lastActiveAt: Date;
  /** It was imported then: it counts as seen, but is not shown as active. */
  importedAt?: Date;
  /** Time from which nothing reaches the device; the scheduler deletes it then (store/deleted-devices). */
  expiresAt?: Date;
  deletedAt?: Date;
  /** It was deleted because it had ended or was idle: the devices that it had replaced are as they were before. */
  ended?: true;
  /** The claim of the prune that deleted it, until it is cleared. */
  prunedBy?: string;
  /** The device is deleted or a former one, but its subscriptions and inbox aren't cleared yet (store/deleted-devices). */
  leaving?: true;
  /** In a former device: the device that has registered its address, and when (store/former-devices). */
  replacedBy?: string;
  replacedAt?: Date;
  /** The former device whose address this one has registered. */
  replaces?: string;
  /** SHA-256 of the app and the installation's own id, hex. */
  deviceIdHash?: string;
  /** The call that alone may change the device's subscriptions (store/topic-change-locks). */
  topicsLock?: { owner: string; until: Date };
  /** Events that are not reported to webhooks yet. */
  notify?: NotifyEntry[];
}

/** A device's subscription to a topic. */
export interface SubscriptionDocument {
  /** app:topic:token */
  _id: string;
  token: string;
  platform: Platform;
  /** Mark of a change in progress (store/subscriptions). */
  pending?: number;
  /** Identity of the call that set the mark. */
  by?: string;
  since: Date;
  /** While an import is in progress: what `since` becomes. */
  importedSince?: Date;
}

/** A topic's counters. */
export interface TopicDocument {
  /** app:topic */
  _id: string;
  /** Subscribers per platform. */
  n: Partial<Record<Platform, number>>;
  /** Grows with each change, so that a recount detects a concurrent one. */
  v: number;
}

/** Cursor of a page of a topic's subscribers. */
export interface PageCursorDocument {
  /** app:topic:page */
  _id: string;
  after: string;
  at: Date;
}

/** The version of the schema; the collection holds one document. */
export interface SchemaDocument {
  _id: 'schema';
  /** The last step that was completed. */
  version: number;
  /** The migration that runs, until when by MongoDB's clock. */
  lease?: { owner: string; until: Date };
}

/** A proxy that processes have detected and their settings don't name. */
export interface ProxyWarningDocument {
  _id: ProxyWarning;
  /** Time at which a process last detected it. */
  at: Date;
}

/** A deferred recipient: position, time of the next try in milliseconds since 1970, number of deferrals, last error. */
export type DeferredEntry = [position: number, untilMs: number, times: number, word?: string];

/** An error of a provider, and the positions of the recipients that it was returned for. */
export type ProviderErrorEntry = [word: string, positions: number[]];

/** The failed recipients of a batch that one re-drive sends to again. */
export interface RedrivenEntry {
  by: string;
  bits: Binary;
}

/** A recipient that a worker tries alone, and the attempts in a row whose end is not known, the current one included. */
export interface TriedRecipient {
  position: number;
  attempts: number;
}

/**
 * A batch: recipients of one push on one channel. Stored in a document of its own, or in its push if there is only one.
 */
export interface Batch {
  state: BatchState;
  channel: Channel;
  /**
   * Time from which the batch may be claimed; while it is claimed, the end of the lease. MongoDB's time. That of a parked
   * batch is never reached (store/parked-batches).
   */
  at: Date;
  /** Random id of the current claim; every write of its worker is conditional on it. */
  claim?: string;
  /** The reply stream of the claim's worker. */
  reply?: string;
  /** The previous claim, if its worker neither settled nor released the batch. */
  before?: { claim: string; reply: string };
  /**
   * The batch tries a second channel for recipients of another batch, which holds their outcomes: it is not counted.
   */
  fallback?: true;
  /** A retry was requested while the batch was claimed: it is due as soon as it is released. */
  hurried?: true;
  /** Claims so far. */
  tries: number;
  /** Claims in a row that ended without a trace (store/lapsed-claims); -1 after a save. */
  lapsed?: number;
  /** The recipient of a suspected batch that was tried last (store/lapsed-claims). */
  trying?: TriedRecipient;
  /** Recipients that a provider has deferred. */
  later?: DeferredEntry[];
  /** Errors of a provider about recipients that have failed or are gone. */
  words?: ProviderErrorEntry[];
  /** Time at which the first recipients failed, by MongoDB's clock: written with their outcomes, never changed. */
  failedAt?: Date;
  /** Reasons of the failed recipients, as a mask (core/outcomes). */
  failures?: number;
  /** Failed recipients that re-drives send to again: the re-drive, and one bit for each recipient of the batch. */
  redriven?: RedrivenEntry[];
  n: number;
  /** Device tokens of the recipients, sorted, joined by core/batch. */
  tokens: string;
  /** One byte for each recipient (core/outcomes); before the batch is closed, the outcomes saved so far. */
  outcomes?: Binary;
  /** Receipts that did not reach the worker of the claim: word → int32 of bits, sparse. */
  got?: Record<string, number>;
  /**
   * Times at which receipts of `got` were recorded, by MongoDB's clock: word → bit → time (store/receipt-times).
   * Receipts that a worker has recorded have their latency in `ms` instead.
   */
  gotAt?: Record<string, Record<string, Date>>;
  /** Recipients whose device was deleted while it had an inbox row, in the form of `got`. */
  gone?: Record<string, number>;
  /** Recipients for which the provider of the fallback has accepted the push, in the form of `got`. */
  sent?: Record<string, number>;
  /** Those of `sent` whose row the answer has ended: nothing is expected of them any more. */
  done?: Record<string, number>;
  /** Outcomes of recipients that were offered to the fallback, which has not reached them: position → code. */
  refused?: Record<string, number>;
  /** In a fallback: recipients that have no inbox row because the inbox was full, in the form of `got`. */
  full?: Record<string, number>;
  counts?: OutcomeCounts;
  /** Outcome of all recipients without one of their own, if the end of the push closed the batch. */
  ended?: number;
  /**
   * Some recipients also got the push over MQTT and had not acknowledged when the batch was closed: until the outcomes
   * are final, a receipt overrides them.
   */
  lateReceipts?: boolean;
  /** `outcomes` holds the final outcome of every recipient: written when the push ended, and never changed again. */
  final?: true;
  /**
   * Milliseconds from acceptance or due time to a receipt that a worker has waited for: 4 bytes little endian for each
   * recipient, 0 unknown. Before the batch is closed, the latencies saved so far.
   */
  ms?: Binary;
  closedAt?: Date;
}

/**
 * State of a document for one webhook: the events that were reported, and the time of the next report. A push and its
 * batches get their entries when they are stored, a device when one of its events occurs. Only entries with `at` are in
 * the index of the work to report.
 */
export interface NotifyEntry {
  /** Id of the webhook. */
  w: string;
  /** In a push: the webhook gets events of recipients, so the push's batches get entries too. */
  r?: true;
  /** A replay has set the entry: claims and inbox rows from before leave no mark, so the end of the push sets it. */
  replayed?: true;
  /** Grows with each change that is to be reported: a report closes the entry only if none came meanwhile. */
  v: number;
  /** Time from which the entry may be claimed, by MongoDB's clock; absent if nothing is to be reported. */
  at?: Date;
  /** No worker may claim the entry before: the end of a lease, or of the delay after a failure. */
  until?: Date;
  /** Random id of the current claim. */
  claim?: string;
  /** Failed reports in a row. */
  tries?: number;
  /** The outcome reported last, one byte for each recipient. */
  reported?: Binary;
  /** In a push: its end was reported. */
  finished?: true;
  /** In a device: events to report. */
  events?: DeviceEvent[];
  /** In a device: when the events occurred, but for its registration. */
  times?: { event: DeviceEvent; at: Date }[];
}

/** An event of a device that is reported to webhooks. */
export type DeviceEvent = 'registered' | 'uninstalled' | 'unsubscribed' | 'deleted';

/** A receiver of events of an app. */
export interface WebhookDocument {
  _id: string;
  app: string;
  /** Sealed text of the address, bound to the id. */
  address: SealedBox;
  /** Host of the address, which may be shown. */
  host: string;
  events: WebhookEvent[];
  /** Sealed secrets, newest first, each bound to the id; a request is signed with all that have not ended. */
  secrets: { sealed: SealedBox; endsAt?: Date }[];
  createdAt: Date;
  /** From 0 to one less than the webhooks that an app may have, unique within the app. */
  slot: number;
  /** When and why the webhook was turned off; absent while events are sent. */
  off?: { at: Date; reason: 'operator' | 'gone' | 'failing' };
  /** Failed requests in a row, the time of the last, since when, and when the next one is sent. Test events don't count. */
  failures?: number;
  failedAt?: Date;
  failingSince?: Date;
  retryAt?: Date;
  /** The last response: its status, or the reason why there was none. */
  last?: { at: Date; status?: number; error?: string };
  lastSuccessAt?: Date;
  /** A test event was requested. */
  testAt?: Date;
  /** The request that is to be sent again. */
  resend?: string;
  /** Events that were removed with their push before they could be reported. */
  dropped?: number;
}

/** Progress of a push's fan-out. */
export interface FanOutProgress {
  at?: Date;
  claim?: string;
  /** The current page of the topics' subscribers: the tokens after `from` up to `to`. */
  from?: string;
  to?: string;
  /** Those of the page that go by FCM, joined by core/batch; absent if none does. */
  byFcm?: string;
  /** Steps so far; part of the job ids. */
  seq: number;
  /** Number of the next page's first batch. */
  next: number;
  done: boolean;
}

/**
 * Fields by which the pushes of a device are found, in the document of a batch or of the push that holds it. Beside
 * `work`, so that no claim reads them. Absent in fallback batches: the batch that holds the outcomes leads to them.
 */
export interface DeviceKeys {
  /** Of a batch of few recipients: the hashes of their tokens (core/batch). */
  tokenHashes?: number[];
  /** First and last token of a larger batch. */
  firstToken?: string;
  lastToken?: string;
}

/** Who sent a push: the API key with these last four characters, or the operator with this name. */
export type PushSender = { key: string } | { operator: string };

export interface PushDocument extends DeviceKeys {
  _id: string;
  app: string;
  /** Absent in pushes of earlier releases. */
  by?: PushSender;
  state: PushState;
  acceptedAt: Date;
  /** In state `accepting`: the end of the accepting process's lease. */
  acceptingUntil?: Date;
  dueAt?: Date;
  expiresAt: Date;
  /** Nothing is sent after this: `expiresAt`, or shortly after acceptance for a time to live of 0. */
  sendUntil: Date;
  finishedAt?: Date;
  /** An expiry or deletion that has begun and isn't complete. */
  ending?: 'expired' | 'deleted';
  /** Time from which the document may be removed. */
  purgeAt?: Date;
  /** The payload as the JSON text of the request: numbers, keys and their order are delivered unchanged. */
  data: string;
  options?: PushOptions;
  /** The only channel that is used: the push is a test of it. */
  channel?: Channel;
  /** Hash of the collapse key (core/batch). */
  collapse?: string;
  /** Topics of the request, in its order, for reports; absent if it has none. */
  topics?: string[];
  /** Topics that the fan-out resolves when it runs; the `tokens` are in batches already. */
  audience?: { topics: string[]; tokens: string; activeWithinSeconds?: number };
  devices: number;
  fan: FanOutProgress;
  work?: Batch;
  /** The webhooks to which the push is reported, decided when it was accepted. */
  notify?: NotifyEntry[];
  /** While a report keeps the push past its retention: the latest time of its removal. */
  keepUntil?: Date;
  counts?: OutcomeCounts;
  /** Context of the trace that the request began or continued (`traceparent`, W3C Trace Context), if it is sampled. */
  trace?: string;
  /**
   * `failed`: one bit per token of the request, set if the response listed it as failed (store/failed-tokens). `warned`: the
   * response warned of the missing contact for Web Push.
   */
  idempotency?: { key: string; bodyHash: string; failed?: Binary; warned?: true };
}

export interface BatchDocument extends DeviceKeys {
  /** The push's id, `-`, the batch's number. */
  _id: string;
  push: string;
  app: string;
  /** First and last of its tokens. */
  from: string;
  to: string;
  work: Batch;
  /** The webhooks to which the recipients are reported. */
  notify?: NotifyEntry[];
}

/** A push that is pending for a device. */
export interface InboxDocument {
  /** `token:push`, or `token:~hash` of a collapse key, where the newest push wins. */
  _id: string;
  push: string;
  /** Id of the batch, or of the push that holds its only batch. */
  work: string;
  position: number;
  /** The push was written to the device's socket once, without a receipt. */
  sent?: boolean;
  /** Events of the recipient are reported to webhooks: the write that ends it marks the batch. */
  notify?: true;
}

/** The failures that a re-drive is for. */
export interface RedriveFilter {
  channel?: Channel;
  reason?: Failure;
  /** Failures since this time. */
  from?: Date;
}

/** A re-drive: one new push for each old one, to the recipients that failed. */
export interface RedriveDocument {
  _id: string;
  app: string;
  /** Name of the operator who started it. */
  by?: string;
  state: 'running' | 'finished' | 'stopped';
  createdAt: Date;
  endedAt?: Date;
  /** Failures marked later than this are not part of it: those of its own pushes never are. */
  to: Date;
  filter: RedriveFilter;
  /** Only these pushes, in order of id; absent means all that match the filter. */
  pushes?: string[];
  /** The last old push that was handled. */
  cursor?: string;
  /** Number of old pushes; absent until they are counted. */
  total?: number;
  /** Old pushes for which a new one was accepted. */
  done: number;
  /** Recipients of the new pushes. */
  recipients: number;
  /** Old pushes without a new one, by reason. */
  skipped: Record<string, number>;
}

/** Status of one recipient of a push. */
export interface RecipientStatus {
  outcome: OutcomeName;
  reason?: Failure;
  milliseconds?: number;
  /** The provider's last error about this recipient. */
  detail?: string;
  /** Number of times that a provider has deferred it. */
  tries?: number;
  /** Earliest time of the next try, ISO 8601. */
  nextTryAt?: string;
}

/** A recipient for which a provider returned an error. */
export interface RecipientProviderError extends RecipientStatus {
  token: string;
}
