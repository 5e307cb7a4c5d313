import { hash } from 'node:crypto';
import { withFields } from '@carillon/core/json-object';
import type { ProviderPush } from '../../deliver/provider.ts';

/** Apple keeps a notification for 30 days at most. */
const LONGEST_SECONDS = 30 * 86_400;
/** Apple, "Sending notification requests to APNs": a payload has at most 4 KB. */
const MAX_BYTES = 4_096;
/** What apns-collapse-id takes as it is: at most 64 bytes, of what a header may hold. */
const COLLAPSE_ID = /^[\x21-\x7e]{1,64}$/;

/** A push as APNs takes it, the same for every device but for the topic. */
export interface ApnsMessage {
  /** JSON text. */
  body: string;
  tooLarge: boolean;
  pushType: 'alert' | 'background';
  priority: 5 | 10;
  /** Unix seconds; 0: for devices that are there now. */
  expiry: number;
  collapseId: string;
}

/** Where our names of the options within `aps` and `aps.alert` differ from Apple's, and where they don't. */
const APS_FIELDS = {
  badge: 'badge',
  category: 'category',
  thread_id: 'thread-id',
  interruption_level: 'interruption-level',
} as const;
const ALERT_FIELDS = {
  title: 'title',
  body: 'body',
  loc_key: 'loc-key',
  loc_args: 'loc-args',
  title_loc_key: 'title-loc-key',
  title_loc_args: 'title-loc-args',
} as const;

/** Encodes a push (Apple, "Generating a remote notification"). Fields of `data` stand beside `aps`. */
export function encodeApns(push: ProviderPush, nowMs: number): ApnsMessage {
  const { collapseKey, contentAvailable, notification } = push.options;
  const background = contentAvailable === true && notification === undefined;
  const body = withFields(push.data, { aps: aps(push), _pushyId: push.id });
  return {
    body,
    tooLarge: Buffer.byteLength(body) > MAX_BYTES,
    pushType: background ? 'background' : 'alert',
    // Apple refuses a background push of priority 10.
    priority: background ? 5 : 10,
    expiry: push.nowOnly ? 0 : expirySeconds(push.expiresAt, nowMs),
    // Without a key its own id: when an answer is lost and the push sent again, the device shows one.
    collapseId: collapseKey === undefined ? push.id : collapseId(collapseKey),
  };
}

function expirySeconds(expiresAt: Date, nowMs: number): number {
  const latest = Math.floor(nowMs / 1_000) + LONGEST_SECONDS;
  return Math.min(Math.floor(expiresAt.getTime() / 1_000), latest);
}

function collapseId(key: string): string {
  return COLLAPSE_ID.test(key) ? key : hash('sha256', key, 'base64url');
}

function aps({ options }: ProviderPush): Record<string, unknown> {
  const notification = options.notification ?? {};
  const alert = renamed(notification, ALERT_FIELDS);
  return {
    ...(Object.keys(alert).length > 0 && { alert }),
    ...renamed(notification, APS_FIELDS),
    ...('sound' in notification && { sound: sound(notification.sound) }),
    ...(options.contentAvailable === true && { 'content-available': 1 }),
    ...(options.mutableContent === true && { 'mutable-content': 1 }),
  };
}

function renamed(from: Record<string, unknown>, names: Record<string, string>) {
  const present = Object.entries(names).filter(([ours]) => from[ours] !== undefined);
  return Object.fromEntries(present.map(([ours, apples]) => [apples, from[ours]]));
}

/** A file's name, or the dictionary of a critical alert, in which Apple's `critical` is 1 or 0. */
function sound(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('critical' in value)) return value;
  const { critical } = value;
  return { ...value, critical: typeof critical === 'boolean' ? Number(critical) : critical };
}
