import { hash } from 'node:crypto';
import { appendJsonFields } from '@carillon/core/json-object';
import { isWakeOnly } from '@carillon/core/push-options';
import type { ProviderPush } from '../../deliver/provider.ts';

/** Maximum time for which Apple stores a notification. */
const MAX_TTL_SECONDS = 30 * 86_400;
/** Maximum size of a payload (Apple, "Sending notification requests to APNs"). */
const MAX_PAYLOAD_BYTES = 4_096;
/** Pattern of a valid apns-collapse-id: at most 64 bytes of characters that a header may hold. */
const COLLAPSE_ID = /^[\x21-\x7e]{1,64}$/;

/** A push encoded for APNs, the same for every device but for the topic. */
export interface ApnsMessage {
  /** JSON text. */
  body: string;
  isTooLarge: boolean;
  pushType: 'alert' | 'background';
  priority: 5 | 10;
  /** Unix seconds; 0 means only for devices that are reachable at once. */
  expiry: number;
  collapseId: string;
}

/** Our names of the options within `aps` and `aps.alert`, and Apple's. */
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

/**
 * Encodes a push (Apple, "Generating a remote notification"). Fields of `data` are siblings of `aps`, but for those
 * named as ours.
 *
 * @param emptyAps `aps` of a push without any option for it
 */
export function encodeApns(
  push: ProviderPush,
  nowMs: number,
  emptyAps: Record<string, unknown> = {},
): ApnsMessage {
  const { collapse_key: collapseKey } = push.options;
  const isBackground = isWakeOnly(push.options);
  const fields = createAps(push, isBackground);
  const aps = Object.keys(fields).length === 0 ? emptyAps : fields;
  const body = appendJsonFields(push.data, { aps, _pushyId: push.id });
  return {
    body,
    isTooLarge: Buffer.byteLength(body) > MAX_PAYLOAD_BYTES,
    pushType: isBackground ? 'background' : 'alert',
    // Apple rejects a background push of priority 10.
    priority: isBackground ? 5 : 10,
    expiry: push.nowOnly ? 0 : computeExpirySeconds(push.expiresAt, nowMs),
    // Without a key its own id: when a response is lost and the push is sent again, the device shows one.
    collapseId: collapseKey === undefined ? push.id : collapseIdFor(collapseKey),
  };
}

function computeExpirySeconds(expiresAt: Date, nowMs: number): number {
  const latest = Math.floor(nowMs / 1_000) + MAX_TTL_SECONDS;
  return Math.min(Math.floor(expiresAt.getTime() / 1_000), latest);
}

function collapseIdFor(key: string): string {
  return COLLAPSE_ID.test(key) ? key : hash('sha256', key, 'base64url');
}

/** Creates `aps`. That of a background push must have no alert, sound or badge, not even an empty one. */
function createAps({ options }: ProviderPush, isBackground: boolean): Record<string, unknown> {
  const notification = options.notification ?? {};
  const alert = isBackground ? {} : renameFields(notification, ALERT_FIELDS);
  const hasSound = !isBackground && 'sound' in notification;
  return {
    ...(Object.keys(alert).length > 0 && { alert }),
    ...renameFields(notification, APS_FIELDS),
    ...(hasSound && { sound: convertSound(notification.sound) }),
    ...(options.content_available === true && { 'content-available': 1 }),
    ...(options.mutable_content === true && { 'mutable-content': 1 }),
  };
}

function renameFields(from: Record<string, unknown>, names: Record<string, string>) {
  const present = Object.entries(names).filter(([ourName]) => from[ourName] !== undefined);
  return Object.fromEntries(present.map(([ourName, appleName]) => [appleName, from[ourName]]));
}

/** Converts a sound: a file name, or the dictionary of a critical alert, where Apple's `critical` is 1 or 0. */
function convertSound(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || !('critical' in value)) return value;
  const { critical } = value;
  return { ...value, critical: typeof critical === 'boolean' ? Number(critical) : critical };
}
