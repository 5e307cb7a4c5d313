import type { Counts } from '../api/types.ts';

/** An outcome as the console shows it. */
export interface OutcomeStyle {
  label: string;
  /** CSS colour of its mark. */
  color: string;
  meaning: string;
}

const STYLES: Record<string, OutcomeStyle> = {
  delivered: {
    label: 'Delivered',
    color: 'var(--outcome-delivered)',
    meaning: 'The device acknowledged the push.',
  },
  sent: {
    label: 'Sent',
    color: 'var(--outcome-sent)',
    meaning: 'The provider took the push. APNs, FCM and Web Push report nothing further.',
  },
  pending: {
    label: 'Pending',
    color: 'var(--outcome-pending)',
    meaning: 'Not tried yet, or deferred by the provider.',
  },
  inbox: {
    label: 'Pending (stored)',
    color: 'var(--outcome-inbox)',
    meaning: 'The device is offline. It gets the push when it connects.',
  },
  failed: {
    label: 'Failed',
    color: 'var(--outcome-failed)',
    meaning: 'The push will not reach the device.',
  },
  gone: {
    label: 'Gone',
    color: 'var(--outcome-gone)',
    meaning: 'The app was uninstalled or the device was deleted.',
  },
  offered: {
    label: 'Pending (at FCM)',
    color: 'var(--outcome-pending)',
    meaning: 'The inbox is full, and FCM has not answered yet.',
  },
  expired: {
    label: 'Expired',
    color: 'var(--outcome-expired)',
    meaning: 'The time to live passed before the device was reached.',
  },
  superseded: {
    label: 'Superseded',
    color: 'var(--outcome-superseded)',
    meaning: 'A newer push with the same collapse key took its place.',
  },
  deleted: {
    label: 'Deleted',
    color: 'var(--outcome-deleted)',
    meaning: 'The push was deleted before the device was reached.',
  },
};

const ORDER = Object.keys(STYLES);

/** The outcomes that end a recipient, for filters. */
export const ENDS = ORDER.filter((name) => !['pending', 'inbox', 'offered'].includes(name));

/** Returns how an outcome is shown; an unknown one, of a newer server, by its own name. */
export function outcomeStyle(name: string): OutcomeStyle {
  return STYLES[name] ?? { label: name, color: 'var(--outcome-pending)', meaning: '' };
}

/** Lists the outcomes that have recipients, the good ones first. */
export function listCounts(counts: Counts): { name: string; count: number }[] {
  return Object.entries(counts)
    .map(([name, count]) => ({ name, count: count ?? 0 }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => rank(a.name) - rank(b.name));
}

function rank(name: string): number {
  const position = ORDER.indexOf(name);
  return position === -1 ? ORDER.length : position;
}

const REASONS: Record<string, string> = {
  'channel-not-configured': 'The app has no credential for this channel',
  'inbox-full': 'The device’s inbox is full',
  'payload-too-large': 'The payload is too large for the provider',
  'rejected-by-provider': 'The provider rejected the push',
  'no-provider-address': 'The device has no address at the provider',
  'bad-provider-address': 'The provider does not know the device’s address',
  'wrong-credential': 'The credential does not fit the device',
  'endpoint-not-allowed': 'The browser’s push service is not allowed',
  'worker-failed': 'Each attempt ended the process that made it',
};

/** The reasons of failures that can be filtered by. */
export const REASON_NAMES = Object.keys(REASONS);

/** Describes the reason of a failure; words of a provider stay as they are. */
export function describeReason(reason: string): string {
  return REASONS[reason] ?? reason;
}

const CHANNEL_LABELS: Record<string, string> = {
  mqtt: 'MQTT',
  apns: 'APNs',
  fcm: 'FCM',
  'web-push': 'Web Push',
};
export const CHANNEL_NAMES = Object.keys(CHANNEL_LABELS);

/** Returns a channel's usual spelling. */
export function channelLabel(channel: string): string {
  return CHANNEL_LABELS[channel] ?? channel;
}

const STATES: Record<string, string> = {
  accepting: 'Being accepted',
  scheduled: 'Scheduled',
  open: 'In delivery',
  finished: 'Finished',
  deleted: 'Deleted',
  abandoned: 'Abandoned',
};

/** Filters of the list of pushes; `accepting` and `abandoned` are states within a second of a request. */
export const STATE_FILTERS = ['scheduled', 'open', 'finished', 'deleted'];

/** Returns a push's state in words. */
export function stateLabel(state: string): string {
  return STATES[state] ?? state;
}
