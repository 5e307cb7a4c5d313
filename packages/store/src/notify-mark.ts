import type { Document } from 'mongodb';
import type { DeviceEvent, NotifyEntry } from './documents.ts';

/** Fields of the index on the documents that are to be reported to webhooks: it contains no others. */
export const NOTIFY_INDEX = { 'notify.w': 1, 'notify.at': 1 } as const;

const ENTRY_FIELDS = [
  'w',
  'r',
  'replayed',
  'v',
  'at',
  'until',
  'claim',
  'tries',
  'reported',
  'finished',
  'events',
  'times',
];

/**
 * Builds an expression that changes some entries of a document; a field set to `$$REMOVE` goes.
 *
 * @param isChanged an expression on an entry, `$$one`
 */
export function mapEntries(isChanged: Document, changes: Document): Document {
  // An object expression leaves out fields without a value, which $mergeObjects would keep.
  const kept = Object.fromEntries(ENTRY_FIELDS.map((field) => [field, `$$one.${field}`]));
  const changed = { ...kept, ...changes };
  return {
    $map: { input: '$notify', as: 'one', in: { $cond: [isChanged, changed, '$$one'] } },
  };
}

/**
 * Value of `notify` after a change that is to be reported to webhooks, for a statement that is a pipeline. Documents
 * without webhooks stay as they are.
 */
export const NOTIFY_MARK: Document = {
  $cond: [
    { $isArray: '$notify' },
    mapEntries({ $literal: true }, { at: '$$NOW', v: { $add: ['$$one.v', 1] } }),
    '$$REMOVE',
  ],
};

/** Builds the same mark for a statement of operators; it fails on a document without webhooks. */
export function buildNotifyOperators(now: Date) {
  return { $set: { 'notify.$[].at': now }, $inc: { 'notify.$[].v': 1 } };
}

/** Returns the entries of the documents of a batch: those of its push whose webhooks get events of recipients. */
export function batchEntries(
  entries: readonly NotifyEntry[] | undefined,
): { notify: NotifyEntry[] } | Record<string, never> {
  const notify = (entries ?? []).flatMap(({ w, r }) => (r === true ? [{ w, v: 0 }] : []));
  return notify.length === 0 ? {} : { notify };
}

/** Builds the fields by which a document is reported to a webhook again from the beginning. */
export function buildReplay(entry: Pick<NotifyEntry, 'w' | 'r'>): Document {
  const others = {
    $filter: {
      input: { $ifNull: ['$notify', []] },
      as: 'one',
      cond: { $ne: ['$$one.w', { $literal: entry.w }] },
    },
  };
  const replayed = { ...entry, replayed: true, v: 1, at: '$$NOW' };
  return { notify: { $concatArrays: [others, [replayed]] } };
}

/**
 * Builds the value of `notify` of a batch at the end of its push, if the push was replayed while it was open. The value
 * marks the entries of these webhooks. It adds the entries that are missing because the batch was stored during the
 * replay.
 */
export function buildEndOfReplay(webhooks: readonly string[]): Document {
  return markOrAdd(webhooks, {}, {});
}

/** Builds the entries of a device that is registered now. */
export function newDeviceEntries(webhooks: readonly string[], now: Date): NotifyEntry[] {
  return webhooks.map((w) => ({ w, v: 1, at: now, events: ['registered'] }));
}

/** Builds the value of `notify` of a device to which an event has occurred, for a statement that is a pipeline. */
export function buildDeviceMark(webhooks: readonly string[], event: DeviceEvent): Document {
  const times = [{ event, at: '$$NOW' }];
  const otherTimes = {
    $filter: {
      input: { $ifNull: ['$$one.times', []] },
      as: 'time',
      cond: { $ne: ['$$time.event', event] },
    },
  };
  return markOrAdd(
    webhooks,
    { events: [event], times },
    {
      events: { $setUnion: [{ $ifNull: ['$$one.events', []] }, [event]] },
      times: { $concatArrays: [otherTimes, times] },
    },
  );
}

/** Marks the entries of these webhooks with some changes, and adds an entry with `added` for each that has none. */
function markOrAdd(webhooks: readonly string[], added: Document, changes: Document): Document {
  const missing = {
    $map: {
      input: { $setDifference: [{ $literal: webhooks }, { $ifNull: ['$notify.w', []] }] },
      as: 'webhook',
      in: { w: '$$webhook', v: 1, at: '$$NOW', ...added },
    },
  };
  const marked = mapEntries(
    { $in: ['$$one.w', { $literal: webhooks }] },
    { at: '$$NOW', v: { $add: ['$$one.v', 1] }, ...changes },
  );
  return { $concatArrays: [{ $ifNull: [marked, []] }, missing] };
}
