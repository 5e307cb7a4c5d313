import type { TokenMessage } from 'firebase-admin/messaging';
import type { ProviderPush } from '../../deliver/provider.ts';

/** FCM keeps a message for 28 days at most. */
const LONGEST_MS = 28 * 86_400_000;
/** FCM, "About FCM messages": keys and values of `data` together. */
const MAX_BYTES = 4_096;

/** A push as FCM takes it, the same for every device but for its token. */
export interface FcmMessage {
  data: { payload: string; _pushyId: string };
  tooLarge: boolean;
  collapseKey?: string;
  /** When FCM is to give up, milliseconds since 1970; undefined: it is for devices that are there now. */
  expiresAtMs?: number;
}

/** Encodes a push. The payload goes as one text, for the values of `data` are texts at FCM. */
export function encodeFcm(push: ProviderPush): FcmMessage {
  const data = { payload: push.data, _pushyId: push.id };
  const { collapseKey } = push.options;
  return {
    data,
    tooLarge: Buffer.byteLength(Object.entries(data).flat().join('')) > MAX_BYTES,
    ...(collapseKey !== undefined && { collapseKey }),
    ...(!push.nowOnly && { expiresAtMs: push.expiresAt.getTime() }),
  };
}

/** The message for one device (FCM v1, Message); `ttl` is in milliseconds, as the library has it. */
export function messageFor(message: FcmMessage, token: string, nowMs: number): TokenMessage {
  const { data, collapseKey, expiresAtMs = nowMs } = message;
  const ttl = Math.min(Math.max(0, expiresAtMs - nowMs), LONGEST_MS);
  const collapse = collapseKey !== undefined && { collapseKey };
  return { token, data, android: { priority: 'high', ttl, ...collapse } };
}
