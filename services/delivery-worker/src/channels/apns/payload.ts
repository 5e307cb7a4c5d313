import { hash } from 'node:crypto';
import type { PushKind } from '@carillon/core/channels/apns';
import { pushStartMs } from '@carillon/core/ids';
import { mergeJsonText, mergePatch } from '@carillon/core/json-merge';
import { appendJsonFields } from '@carillon/core/json-object';
import type { ProviderPatches } from '@carillon/core/provider-fields';
import { isWakeOnly } from '@carillon/core/push-options';
import type { ProviderPush } from '../../deliver/provider.ts';

/** Maximum time for which Apple stores a notification. */
const MAX_TTL_SECONDS = 30 * 86_400;
/** Maximum sizes of a payload (Apple, "Sending notification requests to APNs"). */
const MAX_PAYLOAD_BYTES = 4_096;
const MAX_VOIP_PAYLOAD_BYTES = 5_120;
/** Pattern of a valid apns-collapse-id: at most 64 bytes of characters that a header may hold. */
const COLLAPSE_ID = /^[\x21-\x7e]{1,64}$/;

/** A push encoded for APNs, the same for every device of a kind but for the topic. */
export interface ApnsMessage {
  /** JSON text. */
  body: string;
  isTooLarge: boolean;
  headers: ApnsHeaders;
}

/** Headers by name, without the topic; one that is absent is not sent. */
export interface ApnsHeaders {
  'apns-push-type': string;
  'apns-priority'?: string;
  /** Unix seconds; 0 means only for devices that are reachable at once. */
  'apns-expiration'?: string;
  'apns-collapse-id'?: string;
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

/** What a push is encoded for. */
interface ApnsTarget {
  nowMs: number;
  /** Of the devices' tokens. Default: `alert`. */
  kind?: PushKind | undefined;
  /** `aps` of a push without any option for it. */
  emptyAps?: Record<string, unknown>;
  /** Fields that are merged over the payload after the request's own for APNs. */
  lastPatch?: Record<string, unknown> | undefined;
}

/**
 * Encodes a push (Apple, "Generating a remote notification"). Fields of `data` are siblings of `aps`, but for those
 * named as ours; the request's own fields for APNs are merged over all of them.
 */
export function encodeApns(
  push: ProviderPush,
  { nowMs, kind = 'alert', emptyAps = {}, lastPatch }: ApnsTarget,
): ApnsMessage {
  const { apns: patch = {} } = push.patches ?? {};
  const wakesOnly = kind === 'alert' && isWakeOnly(push.options);
  const fields = createAps(push, kind, wakesOnly);
  const aps = Object.keys(fields).length === 0 ? emptyAps : fields;
  const made = appendJsonFields(push.data, { aps, _pushyId: push.id });
  const body = mergeJsonText(mergeJsonText(made, patch.payload), lastPatch);
  const isPatched = (patch.payload ?? lastPatch) !== undefined;
  const merged = mergePatch(mergePatch(aps, patch.payload?.aps ?? {}), lastPatch?.aps ?? {});
  const isBackground = isPatched ? kind === 'alert' && wakes(merged) : wakesOnly;
  const maxBytes = kind === 'voip' ? MAX_VOIP_PAYLOAD_BYTES : MAX_PAYLOAD_BYTES;
  return {
    body,
    isTooLarge: Buffer.byteLength(body) > maxBytes,
    headers: mergeHeaders(createHeaders(push, nowMs, isBackground), patch.headers, kind),
  };
}

/** Checks whether `aps` wakes the app, and shows and plays nothing. */
function wakes(aps: unknown): boolean {
  const { alert, badge, sound, ...others } = aps as Record<string, unknown>;
  const texts = typeof alert === 'object' ? Object.values(alert ?? {}) : [alert];
  const isShown = badge !== undefined || [...texts, sound].some(Boolean);
  return others['content-available'] === 1 && !isShown;
}

function createHeaders(push: ProviderPush, nowMs: number, isBackground: boolean): ApnsHeaders {
  const { collapse_key: collapseKey, priority } = push.options;
  const expiry = push.nowOnly ? 0 : computeExpirySeconds(push.expiresAt, nowMs);
  return {
    // Apple rejects a background push of priority 10.
    'apns-priority': isBackground || priority === 'normal' ? '5' : '10',
    'apns-push-type': isBackground ? 'background' : 'alert',
    'apns-expiration': String(expiry),
    // Without a key its own id: when a response is lost and the push is sent again, the device shows one.
    'apns-collapse-id': collapseKey === undefined ? push.id : collapseIdFor(collapseKey),
  };
}

/** Merges the headers of the request. The push type of a token for one kind of notifications is that kind. */
function mergeHeaders(
  made: ApnsHeaders,
  patch: NonNullable<ProviderPatches['apns']>['headers'] = {},
  kind: PushKind,
): ApnsHeaders {
  const merged = mergePatch(made, patch) as ApnsHeaders;
  return kind === 'alert' ? merged : { ...merged, 'apns-push-type': kind };
}

function computeExpirySeconds(expiresAt: Date, nowMs: number): number {
  const latest = Math.floor(nowMs / 1_000) + MAX_TTL_SECONDS;
  return Math.min(Math.floor(expiresAt.getTime() / 1_000), latest);
}

function collapseIdFor(key: string): string {
  return COLLAPSE_ID.test(key) ? key : hash('sha256', key, 'base64url');
}

/**
 * Creates `aps`. That of a background push must have no alert, sound or badge, not even an empty one. That of a Live Activity
 * needs the time of its state: the device shows the latest ("Starting and updating Live Activities", timestamp).
 */
function createAps(
  { id, options }: ProviderPush,
  kind: PushKind,
  isBackground: boolean,
): Record<string, unknown> {
  const notification = options.notification ?? {};
  const alert = isBackground ? {} : renameFields(notification, ALERT_FIELDS);
  const hasSound = !isBackground && 'sound' in notification;
  return {
    ...(kind === 'liveactivity' && { timestamp: Math.floor(pushStartMs(id) / 1_000) }),
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
