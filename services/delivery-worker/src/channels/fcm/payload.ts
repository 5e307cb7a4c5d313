import { mergeJsonText, mergePatch } from '@carillon/core/json-merge';
import type { ProviderPatches } from '@carillon/core/provider-fields';
import { isWakeOnly } from '@carillon/core/push-options';
import type { TokenMessage } from 'firebase-admin/messaging';
import type { ProviderPush } from '../../deliver/provider.ts';
import { encodeApns } from '../apns/payload.ts';

/** Maximum time for which FCM stores a message. */
const MAX_TTL_MS = 28 * 86_400_000;
/** Maximum size of `data` and `notification` together, keys included (FCM, "About FCM messages"). */
const MAX_DATA_BYTES = 4_096;
/**
 * `aps` of a push that shows, plays and wakes nothing. FCM refuses an empty one ("Value of [aps] must be a non-empty
 * dictionary"), so it has the default of a field.
 */
const APS_WITHOUT_EFFECT = { 'interruption-level': 'active' };

/** A message for one device. */
export interface FcmRequest {
  message: TokenMessage;
  /** JSON text of the message's `apns.payload`. */
  apnsPayload?: string;
  /** Merges the fields of the request over the JSON text of the message without its token. */
  patch?: ((message: string) => string) | undefined;
}

/** A push encoded for the devices of one platform. */
export interface FcmMessage {
  isTooLarge: boolean;
  /** Creates the message for a device's token (FCM v1, Message). */
  createRequest(token: string, nowMs: number): FcmRequest;
}

/**
 * Encodes a push for Android; the request's own fields for FCM are merged over it. The payload is sent as one string, since
 * values of `data` are strings at FCM. `ttl` is in milliseconds, as the library takes it.
 */
export function encodeFcm(push: ProviderPush): FcmMessage {
  const data = { payload: push.data, _pushyId: push.id };
  const shown = readShownTexts(push);
  const notification = shown && { notification: shown };
  const { fcm: fields = {} } = push.patches ?? {};
  const { collapse_key: collapseKey } = push.options;
  // High wakes a phone in deep sleep; a push that only wakes the app may wait.
  const isShown = [shown, fields.notification, fields.android?.notification].some(Boolean);
  const defaultPriority = isWakeOnly(push.options) && !isShown ? 'normal' : 'high';
  const { priority = defaultPriority } = push.options;
  const patch = createPatch(push);
  const collapse = collapseKey !== undefined && { collapseKey };
  return {
    isTooLarge: measureBytes(data, shown, fields) > MAX_DATA_BYTES,
    createRequest(token, nowMs) {
      const leftMs = push.nowOnly ? 0 : push.expiresAt.getTime() - nowMs;
      const exactTtl = Math.min(Math.max(0, leftMs), MAX_TTL_MS);
      // In whole seconds, so that many recipients have one message.
      const ttl = patch === undefined ? exactTtl : Math.floor(exactTtl / 1_000) * 1_000;
      const android = { priority, ttl, ...collapse };
      return { message: { token, data, ...notification, android }, patch };
    },
  };
}

/**
 * Encodes a push for iOS: what APNs gets from us directly, which FCM passes on. It has no `data`, whose fields FCM would
 * add to the payload once more.
 */
export function encodeFcmForApple(push: ProviderPush, nowMs: number): FcmMessage {
  const { fcm: fields = {} } = push.patches ?? {};
  const lastPatch = fields.apns?.payload;
  const target = { nowMs, emptyAps: APS_WITHOUT_EFFECT, lastPatch };
  const encoded = encodeApns(addAlert(push), target);
  const patch = createPatch(push);
  return {
    isTooLarge: encoded.isTooLarge || measureBytes({}, undefined, fields) > MAX_DATA_BYTES,
    createRequest: (token) => ({
      message: { token, apns: { headers: { ...encoded.headers } } },
      apnsPayload: encoded.body,
      patch,
    }),
  };
}

/** Adds the texts of `data` as the alert of a push that has none. */
function addAlert(push: ProviderPush): ProviderPush {
  const { notification = {} } = push.options;
  const { title, body, loc_key, title_loc_key } = notification;
  if ([title, body, loc_key, title_loc_key].some(Boolean)) return push;
  const shown = readShownTexts(push);
  if (shown === undefined) return push;
  return { ...push, options: { ...push.options, notification: { ...notification, ...shown } } };
}

/**
 * Reads the texts of `data` that a device shows.
 *
 * @returns undefined if the app shows none, or `data` has none: an empty text shows nothing
 */
function readShownTexts(push: ProviderPush): { title?: string; body?: string } | undefined {
  if (push.hasFcmNotification !== true) return undefined;
  const { title, message } = JSON.parse(push.data) as Record<string, unknown>;
  const shown = { ...(isText(title) && { title }), ...(isText(message) && { body: message }) };
  return Object.keys(shown).length === 0 ? undefined : shown;
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.isWellFormed();
}

/** Measures what Google does of a message after the merge. */
function measureBytes(
  data: Record<string, string>,
  notification: object | undefined,
  fields: NonNullable<ProviderPatches['fcm']>,
): number {
  const merged = mergePatch(data, fields.data ?? {}) as Record<string, string>;
  const { notification: patch = {}, android } = fields;
  const shown = mergePatch(notification, patch) as object | null;
  const notifications = { ...shown, ...android?.notification };
  const isShown = Object.keys(notifications).length > 0;
  const texts = [...Object.entries(merged).flat(), isShown ? JSON.stringify(notifications) : ''];
  return Buffer.byteLength(texts.join(''));
}

/** Creates the merge of a push's own fields; recipients with the same message share it. */
function createPatch({ patches }: ProviderPush): FcmRequest['patch'] {
  const fields = patches?.fcm;
  if (fields === undefined) return undefined;
  let last = { message: '', merged: '' };
  return (message) => {
    if (message !== last.message) last = { message, merged: mergeJsonText(message, fields) };
    return last.merged;
  };
}
