import type { Channel, ProviderChannelName } from '../../packages/core/src/channels.ts';
import type { TenantName } from './plan.ts';

/** Result of one request to send: a 5xx or a broken connection says nothing about the push. */
export interface Try {
  end: 'ok' | 'fail' | 'unknown';
  startedAtMs: number;
  endedAtMs: number;
  status?: number;
  /** Of a success response. */
  id?: string;
  devices?: number;
}

/** One push as its sender knows it. All its requests have the same Idempotency-Key. */
export interface SentPush {
  tenant: TenantName;
  /** Text in the payload that no other push has. */
  mark: string;
  audience: readonly string[];
  ttlSeconds: number;
  dueAtMs?: number;
  collapse?: string;
  /** The API has to refuse it. */
  isInvalid?: boolean;
  tries: Try[];
  /** Deletion: when its request began, and when a 200 came. */
  deletion?: { startedAtMs: number; deletedAtMs?: number };
  /** At the end of the run, the pushes of its tenant in the database that have its mark; abandoned ones are left out. */
  stored?: readonly StoredPush[];
}

/** A push in the database. */
export interface StoredPush {
  id: string;
  acceptedAtMs: number;
}

/** A push that has come to a device, or that a provider has accepted for one. */
export interface Arrival {
  token: string;
  mark: string;
  atMs: number;
  /** A device with an FCM token may get a push over `mqtt` and `fcm`. */
  channel: Channel;
  /** Connection of the device, from 1; 0 for providers. */
  connection: number;
}

/** A response of a provider to a request for a device: its address is not valid any more. */
export interface Refusal {
  token: string;
  mark: string;
  atMs: number;
  channel: ProviderChannelName;
}

/** A device that its provider reports as gone. One with an FCM token still gets its pushes over MQTT. */
export interface GoneDevice {
  tenant: TenantName;
  token: string;
  channel: ProviderChannelName;
  /** The provider reports it as gone from a moment between these times on. */
  startedAtMs: number;
  goneAtMs: number;
  /** Time from which on the API showed the device's flag; absent if it did not. */
  flaggedAtMs?: number;
}

/** Flag of a device that its provider has reported as gone. */
export type Flag = 'uninstalled' | 'unsubscribed';

/** Recipients of a push: how many by outcome, and the outcome of each by its device token. */
export interface Outcomes {
  counts: Readonly<Record<string, number>>;
  recipients: Readonly<Record<string, string>>;
}

/** A push in other routes of the API: the counts of `/pushes/<id>/outcomes`, the recipients of the export. */
export interface PushSample extends Outcomes {
  /** From `GET /pushes/<id>`; absent if the API does not show the push any more. */
  pendingDevices?: readonly string[];
}

/** A push as the API shows it at the end to its tenant: the counts of the export, the recipients of `/pushes/<id>/recipients`. */
export interface PushEnd extends Outcomes {
  /** The same in the database; `finishedAtMs`: when its last recipient had an end that can't change. */
  stored: Outcomes & { finishedAtMs?: number };
  /** Of some of the pushes. */
  sample?: PushSample;
}

/** Kinds of unfinished work. */
export const LEFT = [
  /** Pushes with open batches. */
  'openBatches',
  'inboxRows',
  /** Pushes that are being accepted or scheduled. */
  'waitingPushes',
  /** Endings of pushes that have begun. */
  'endings',
  /** Jobs in Redis. */
  'jobs',
  /** Pushes, batches and devices with events that are not reported to their webhook. */
  'unreported',
  /** Messages in the gateways' streams: a gateway removes those that it has handled. */
  'gatewayMessages',
  /** Streams of gateways and workers that Redis keeps for ever. */
  'endlessStreams',
] as const;
export type Left = (typeof LEFT)[number];

/** A fault as it happened. Times are Unix milliseconds. */
export interface AppliedFault {
  fault: string;
  /** Which of the two processes, if the fault is about one. */
  index?: number;
  atMs: number;
  /** When it was undone; of a kill the moment itself. Absent if the run could not apply or undo it. */
  healedAtMs?: number;
}

/** A fault that could not be applied or undone. */
export interface FailedFault {
  fault: string;
  error: string;
}

/** The end of a process. */
export interface ProcessEnd {
  /** Name of the service, followed by a number unless it is the first process. */
  process: string;
  /** The signal, or the exit code in words. */
  reason: string;
}

/** A device with MQTT at the end of a run: whether it has a connection, and what the API shows. */
export interface DeviceEnd {
  token: string;
  isConnected: boolean;
  isOnline: boolean;
  pendingNotifications: number;
}

/** A CONNACK that says that the device's credentials are wrong: return code 4 or 5 (MQTT 3.1.1, 3.2.2.3). */
export interface RefusedConnect {
  token: string;
  atMs: number;
  code: number;
}

/** Outcomes that were reported to the webhook of a tenant. */
export interface Reports {
  tenant: TenantName;
  /** Pushes of the tenant whose first request began after this are reported, Unix milliseconds. */
  sinceMs: number;
  /** Outcomes of each recipient by push id and device token. */
  outcomes: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  /** Ids of the pushes whose end was reported. */
  finished: readonly string[];
  /** Flags of devices by their tokens. */
  flags: Readonly<Record<string, readonly string[]>>;
  /** Requests with a wrong signature, or with the events of another app. */
  wrongRequests: number;
}

/** Everything that a run has seen. Times are Unix milliseconds of one machine. */
export interface History {
  seed: number;
  pushes: readonly SentPush[];
  /** Pushes that were sent when the load had ended and all faults were healed. */
  probes: readonly SentPush[];
  arrivals: readonly Arrival[];
  refusals: readonly Refusal[];
  /** By push id. */
  ends: Readonly<Record<string, PushEnd>>;
  /** Tokens of devices that were deleted during the run. */
  removed: readonly string[];
  /** Devices that their providers report as gone, in the order in which they became so. */
  gone: readonly GoneDevice[];
  /** At the end of the run, the devices that have a flag, by token. */
  flags: Readonly<Record<string, Flag>>;
  /** When the load had ended and all faults were healed for long enough. */
  settledAtMs: number;
  /** By how much the observer has noticed things late, in milliseconds, by Unix second. */
  observerLags: Readonly<Record<string, number>>;
  /** Unfinished work at the end, by kind. */
  left: Readonly<Record<Left, number>>;
  devices: readonly DeviceEnd[];
  /** Push ids that the API has shown to each tenant, in a list or in the response to a request for one. */
  shown: Readonly<Record<TenantName, readonly string[]>>;
  reports: Reports;
  /** In the order of their beginnings. */
  faults: readonly AppliedFault[];
  failedFaults: readonly FailedFault[];
  /** Connects of devices that a gateway has refused because of their credentials. */
  refusedConnects: readonly RefusedConnect[];
  /** Ends of processes of Carillon, MongoDB and Redis, those that the run has caused included. */
  deaths: readonly ProcessEnd[];
  /** Processes that the run has killed, each as often as that. */
  kills: readonly string[];
  /** Resident memory of processes, in bytes: early in the run and at its end. */
  memory: readonly { service: string; before: number; after: number }[];
}
