import { isWakeOnly } from '@carillon/core/push-options';
import type { TokenMessage } from 'firebase-admin/messaging';
import type { ProviderPush } from '../../deliver/provider.ts';

/** Maximum time for which FCM stores a message. */
const MAX_TTL_MS = 28 * 86_400_000;
/** Maximum size of keys and values of `data` together (FCM, "About FCM messages"). */
const MAX_DATA_BYTES = 4_096;

/** A push encoded for FCM, the same for every device but for its token. */
export interface FcmMessage {
  data: { payload: string; _pushyId: string };
  isTooLarge: boolean;
  /** High wakes a phone in deep sleep; a push that only wakes the app may wait. */
  priority: 'high' | 'normal';
  collapseKey?: string;
  /** Expiry, milliseconds since 1970; undefined means only for devices that are reachable at once. */
  expiresAtMs?: number;
}

/** Encodes a push. The payload is sent as one string, since values of `data` are strings at FCM. */
export function encodeFcm(push: ProviderPush): FcmMessage {
  const data = { payload: push.data, _pushyId: push.id };
  const { collapse_key: collapseKey } = push.options;
  return {
    data,
    isTooLarge: Buffer.byteLength(Object.entries(data).flat().join('')) > MAX_DATA_BYTES,
    priority: isWakeOnly(push.options) ? 'normal' : 'high',
    ...(collapseKey !== undefined && { collapseKey }),
    ...(!push.nowOnly && { expiresAtMs: push.expiresAt.getTime() }),
  };
}

/** Creates the message for one device (FCM v1, Message); `ttl` is in milliseconds, as the library takes it. */
export function createTokenMessage(
  message: FcmMessage,
  token: string,
  nowMs: number,
): TokenMessage {
  const { data, priority, collapseKey, expiresAtMs = nowMs } = message;
  const ttl = Math.min(Math.max(0, expiresAtMs - nowMs), MAX_TTL_MS);
  const collapse = collapseKey !== undefined && { collapseKey };
  return { token, data, android: { priority, ttl, ...collapse } };
}
