import type { Failure, OutcomeCounts } from '@carillon/core/outcomes';
import type { Channel, Platform } from '@carillon/core/platforms';
import type { Sealed } from '@carillon/core/sealing';
import type { PushState, WorkState } from '@carillon/core/work';
import type { Binary } from 'mongodb';

/** An account: a customer with a plan and a limit of requests per minute. */
export interface AccountDocument {
  _id: string;
  name: string;
  plan: 'trial' | 'pro';
  /** Requests per minute instead of the plan's; null: unlimited. */
  limit?: number | null;
  suspendedAt?: Date;
  createdAt: Date;
}

/** An app: the tenant that owns devices, topics and pushes. */
export interface AppDocument {
  _id: string;
  account: string;
  name: string;
  /** Characters of `data` instead of the specification's 4,096. */
  payloadLimit?: number;
  /** Whether `data` may come as a JSON string, as some senders write it. */
  dataString?: boolean;
  /** No new devices. */
  registrationClosed?: boolean;
  /** New devices an hour instead of the usual limit; null: unlimited. */
  registrationsPerHour?: number | null;
  /** Seconds after which Android devices that haven't acknowledged get the push over FCM; absent: never. */
  fcmFallbackSeconds?: number | null;
  /** Bundle ids of iOS apps that name themselves by it when they register. */
  bundleIds?: string[];
  /** Host names of sites that name themselves by it. */
  webHosts?: string[];
  createdAt: Date;
}

/** APNs is two: which one, an app's build says. */
export type AppleEnvironment = 'development' | 'production';

/** How a provider reaches a device. */
export type ProviderAddress =
  | {
      channel: 'apns';
      /** APNs device token, hex, lower case. */
      address: string;
      environment: AppleEnvironment;
      /** The app's topic at APNs. */
      bundle: string;
    }
  | {
      channel: 'fcm';
      /** FCM registration token. */
      address: string;
    }
  | {
      channel: 'web-push';
      /** The subscription's endpoint. */
      address: string;
      /** The browser's public key and secret (RFC 8291), base64url. */
      p256dh: string;
      auth: string;
    };

/** What an app needs to send through a provider. */
export interface CredentialDocument {
  /** app:channel, or app:apns:environment */
  _id: string;
  app: string;
  channel: Channel;
  environment?: AppleEnvironment;
  /** A ProviderSecret of core/credentials as JSON, sealed and bound to the id. */
  secret: Sealed;
  /** What may be shown of it. */
  about: Record<string, string>;
  /** New with each change: what is known of a credential holds for one revision. */
  revision: string;
  changedAt: Date;
  /** The provider's last refusal, while it lasts. */
  refused?: { detail: string; at: Date; until: Date };
}

/** A Secret API Key; the key itself is nowhere. */
export interface KeyDocument {
  _id: string;
  app: string;
  /** HMAC-SHA-256 of the key under the pepper, hex. */
  digest: string;
  /** Its last four characters, to tell keys apart. */
  lastFour: string;
  createdAt: Date;
  revokedAt?: Date;
}

export interface DeviceDocument {
  /** The device token. */
  _id: string;
  app: string;
  platform: Platform;
  /** Only imported devices keep one: SHA-256 of their auth, hex. */
  authDigest?: string;
  /** Unique within the app; `since` is when the device gave it, for providers tell of tokens that are long replaced. */
  provider?: ProviderAddress & { since: Date };
  uninstalled?: boolean;
  unsubscribed?: boolean;
  registeredAt: Date;
  lastActiveAt: Date;
  deletedAt?: Date;
}

/** A device's subscription to a topic. */
export interface SubscriptionDocument {
  /** app:topic:token */
  _id: string;
  token: string;
  platform: Platform;
  /** A change under way (store/subscriptions). */
  pending?: number;
  /** Identity of the call that made the mark. */
  by?: string;
  since: Date;
}

/** A topic's counters. */
export interface TopicDocument {
  /** app:topic */
  _id: string;
  /** Subscribers per platform. */
  n: Partial<Record<Platform, number>>;
  /** Grows with each change, so that a recount knows whether one came between. */
  v: number;
}

/** Where a page of a topic's subscribers begins. */
export interface AnchorDocument {
  /** app:topic:page */
  _id: string;
  after: string;
  at: Date;
}

/** A recipient's position, until when it is put off in milliseconds since 1970, and how often it was. */
export type PutOffEntry = [position: number, untilMs: number, times: number];

/** A unit of durable work: the recipients of one push on one channel. Lies in a batch, or in a push of only one. */
export interface Work {
  state: WorkState;
  channel: Channel;
  /** When it may be claimed; while claimed, when the lease ends. MongoDB's time. */
  at: Date;
  /** Random identity of the present claim; every write of a claim is conditional on it. */
  claim?: string;
  /** The reply stream of the claim's worker. */
  reply?: string;
  /** The claim before, whose worker neither settled nor gave back. */
  before?: { claim: string; reply: string };
  /** It tries another channel for recipients whom other work is answerable for: never counted by itself. */
  fallback?: true;
  /** Asked for while it was claimed: once given back it is due at once. */
  hurried?: true;
  /** Claims so far. */
  tries: number;
  /** Recipients whom a provider has put off. */
  later?: PutOffEntry[];
  n: number;
  /** Recipients, sorted, joined by core/work. */
  tokens: string;
  /** A byte for each recipient (core/outcomes); before it is closed, those that a provider's answers have ended. */
  outcomes?: Binary;
  /** Receipts that came by other ways than the claim's replies: word → int32 of bits, sparse. */
  got?: Record<string, number>;
  counts?: OutcomeCounts;
  /** How all recipients without an outcome of their own ended, when the push's end closed the work. */
  ended?: number;
  /** Milliseconds from acceptance (or due time) to receipt: 4 bytes little endian for each recipient, 0 unknown. */
  ms?: Binary;
  closedAt?: Date;
}

/** What the push asks of the channels besides its payload. */
export interface PushOptions {
  collapseKey?: string;
  contentAvailable?: boolean;
  mutableContent?: boolean;
  notification?: Record<string, unknown>;
}

/** Progress of a push's fan-out. */
export interface FanOut {
  at?: Date;
  claim?: string;
  /** The topics' pages: the page being made is of the tokens after `from` up to `to`. */
  from?: string;
  to?: string;
  /** Steps so far, for the jobs' ids. */
  seq: number;
  /** The number of the next page's first batch. */
  next: number;
  done: boolean;
}

export interface PushDocument {
  _id: string;
  app: string;
  state: PushState;
  acceptedAt: Date;
  dueAt?: Date;
  expiresAt: Date;
  /** End of all sending: expiresAt, or shortly after acceptance for a time to live of 0. */
  sendUntil: Date;
  finishedAt?: Date;
  /** An end that was begun and isn't completed. */
  ending?: 'expired' | 'deleted';
  /** When the document may go. */
  purgeAt?: Date;
  /** The payload as the JSON text that came in: every number, key and order comes out exactly as it went in. */
  data: string;
  options?: PushOptions;
  /** Hash of the collapse key (core/work). */
  collapse?: string;
  /** What the fan-out resolves when it runs; `tokens` have batches of their own. */
  audience?: { topics: string[]; tokens: string };
  devices: number;
  fan: FanOut;
  work?: Work;
  counts?: OutcomeCounts;
  /** `failed`: the tokens answered as such, a JSON list, for they may hold anything. */
  idempotency?: { key: string; bodyHash: string; failed: string };
}

export interface BatchDocument {
  /** The push's id, `-`, the batch's number. */
  _id: string;
  push: string;
  app: string;
  /** First and last of its tokens. */
  from: string;
  to: string;
  work: Work;
}

/** A push still owed to a device. */
export interface InboxDocument {
  /** `token:push`, or `token:~hash` of a collapse key, where the newest push wins. */
  _id: string;
  push: string;
  /** The batch, or the push that holds its only batch. */
  work: string;
  position: number;
  /** Already written to the device's socket once without a receipt. */
  sent?: boolean;
}

/** How one recipient of a push stands. */
export interface RecipientFate {
  outcome: string;
  reason?: Failure;
  milliseconds?: number;
}
