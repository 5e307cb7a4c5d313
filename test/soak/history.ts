import type { Channel } from '../../packages/core/src/channels.ts';
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
  /** The same in the database. */
  stored: Outcomes;
  /** Of some of the pushes. */
  sample?: PushSample;
}

/**
 * Kinds of unfinished work: pushes with open batches, inbox rows, pushes that are being accepted or scheduled, endings of pushes that
 * have begun, and jobs in Redis.
 */
export type Left = 'openBatches' | 'inboxRows' | 'waitingPushes' | 'endings' | 'jobs';

/** A fault as it happened. Times are Unix milliseconds. */
export interface AppliedFault {
  fault: string;
  /** Which of the two processes, if the fault is about one. */
  index?: number;
  atMs: number;
  /** When it was undone; of a kill the moment itself. Absent: the run could not apply or undo it. */
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
  /** Requests with a wrong signature, or with the events of another app. */
  wrongRequests: number;
}

/** Everything that a run has seen. Times are Unix milliseconds of one machine. */
export interface History {
  seed: number;
  pushes: readonly SentPush[];
  arrivals: readonly Arrival[];
  /** By push id. */
  ends: Readonly<Record<string, PushEnd>>;
  /** Tokens of devices that were deleted during the run. */
  removed: readonly string[];
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
