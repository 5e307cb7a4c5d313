import type { Channel, ProviderChannelName } from '../../packages/core/src/channels.ts';
import type { ObserverLags } from '../support/observer-lag.ts';
import { LONG_TTL_SECONDS, type TenantName } from './plan.ts';

/** Result of one request to send: a 5xx or a broken connection says nothing about the push. */
export interface Try {
  end: 'ok' | 'fail' | 'unknown';
  startedAtMs: number;
  endedAtMs: number;
  status?: number;
  /** Of a success response. */
  id?: string;
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
  stored?: readonly { id: string; acceptedAtMs: number }[];
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

/** A device that its provider reports as gone. */
export interface GoneDevice {
  tenant: TenantName;
  token: string;
  channel: ProviderChannelName;
  /** The provider is the fallback: the device still gets its pushes over MQTT, and its next CONNECT ends the flag. */
  hasMqtt?: true;
  /** The provider reports it as gone from a moment between these times on. */
  startedAtMs: number;
  goneAtMs: number;
  /** Time from which on the API showed the device's flag; absent if it did not. */
  flaggedAtMs?: number;
}

/** Flag of a device that its provider has reported as gone. */
export type Flag = 'uninstalled' | 'unsubscribed';
/** The flag of a device that is gone, by its provider. */
export const FLAGS: Readonly<Record<ProviderChannelName, Flag>> = {
  ...{ apns: 'uninstalled', fcm: 'uninstalled', 'web-push': 'unsubscribed' },
};

/** Recipients of a push: how many by outcome, and the outcome of each by its device token. */
export interface Outcomes {
  counts: Readonly<Record<string, number>>;
  recipients: Readonly<Record<string, string>>;
}

/** A push as the API shows it at the end to its tenant: the counts of the export, the recipients of `/pushes/<id>/recipients`. */
export interface PushEnd extends Outcomes {
  /** The same in the database; `finishedAtMs`: when its last recipient had an end that can't change. */
  stored: Outcomes & { finishedAtMs?: number };
  /** Of some pushes the counts of `/pushes/<id>/outcomes`, the recipients of the export, and, if shown, those of `/pushes/<id>`. */
  sample?: Outcomes & { pendingDevices?: readonly string[] };
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

/** A fault as it happened. */
export interface AppliedFault {
  fault: string;
  /** Which of the two processes, if the fault is about one. */
  index?: number;
  atMs: number;
  /** When it was undone; of a kill the moment itself. Absent if the run could not apply or undo it. */
  healedAtMs?: number;
}

/** Outcomes that were reported to the webhook of a tenant. */
export interface Reports {
  tenant: TenantName;
  /** Pushes of the tenant whose first request began after this are reported. */
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
  /** Devices that their providers report as gone, in the order in which they became so. */
  gone: readonly GoneDevice[];
  /** At the end of the run, the devices that have a flag, by token. */
  flags: Readonly<Record<string, Flag>>;
  /** When the load had ended and all faults were healed for long enough. */
  settledAtMs: number;
  /** By how much the observer has noticed things late. */
  observerLags: ObserverLags;
  /** Unfinished work at the end, by kind. */
  left: Readonly<Record<Left, number>>;
  /** Devices with MQTT at the end: whether they have a connection, and what the API shows. */
  devices: readonly {
    token: string;
    isConnected: boolean;
    isOnline: boolean;
    pendingNotifications: number;
  }[];
  /** Push ids that the API has shown to each tenant, in a list or in the response to a request for one. */
  shown: Readonly<Record<TenantName, readonly string[]>>;
  reports: Reports;
  /** In the order of their beginnings. */
  faults: readonly AppliedFault[];
  /** Faults that could not be applied or undone. */
  failedFaults: readonly { fault: string; error: string }[];
  /** CONNACKs that say that the device's credentials are wrong: return code 4 or 5 (MQTT 3.1.1, 3.2.2.3). */
  refusedConnects: readonly { token: string; atMs: number; code: number }[];
  /**
   * Ends of processes of Carillon, MongoDB and Redis, those that the run has caused included: the service, followed by a number
   * unless it is the first process; the signal, or the exit code in words.
   */
  deaths: readonly { process: string; reason: string }[];
  /** Processes that the run has killed, each as often as that. */
  kills: readonly string[];
  /** Resident memory of processes, in bytes: early in the run and at its end. */
  memory: readonly { service: string; before: number; after: number }[];
}

/** The history, prepared for the checks. Its pushes include the probes. */
export interface Prepared extends History {
  byMark: ReadonlyMap<string, SentPush>;
  /** By mark and token, in order of time. */
  arrivalsOf: ReadonlyMap<string, readonly Arrival[]>;
  /** By token. */
  goneOf: ReadonlyMap<string, GoneDevice>;
  refusalsOf: ReadonlyMap<string, readonly Refusal[]>;
  accepted: readonly { push: SentPush; id: string; end: PushEnd | undefined }[];
}

export function prepare(history: History): Prepared {
  const pushes = [...history.pushes, ...history.probes];
  const arrivals = history.arrivals.toSorted((a, b) => a.atMs - b.atMs);
  return {
    ...{ ...history, pushes, byMark: new Map(pushes.map((push) => [push.mark, push])) },
    arrivalsOf: Map.groupBy(arrivals, ({ mark, token }) => `${mark} ${token}`),
    goneOf: new Map(history.gone.map((device) => [device.token, device])),
    refusalsOf: Map.groupBy(history.refusals, ({ token }) => token),
    accepted: pushes.flatMap((push) => {
      const id = acceptedId(push);
      return id === undefined ? [] : [{ push, id, end: history.ends[id] }];
    }),
  };
}

/** Returns the id of an accepted push: from a response, or if none came, from the database. */
export function acceptedId({
  tries,
  stored,
}: Pick<SentPush, 'tries' | 'stored'>): string | undefined {
  return tries.find(({ end }) => end === 'ok')?.id ?? stored?.[0]?.id;
}

/** Checks that nothing may keep a push from its devices: it does not expire, is not deleted and not replaced. */
export function isPlain({ ttlSeconds, deletion, collapse }: SentPush): boolean {
  return ttlSeconds >= LONG_TTL_SECONDS && deletion === undefined && collapse === undefined;
}

/** Returns the arrivals of a push at a device, in order of time. */
export function arrivalsAt(
  { arrivalsOf }: Pick<Prepared, 'arrivalsOf'>,
  { mark }: Pick<SentPush, 'mark'>,
  token: string,
): readonly Arrival[] {
  return arrivalsOf.get(`${mark} ${token}`) ?? [];
}
