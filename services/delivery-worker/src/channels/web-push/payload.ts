import { createHash } from 'node:crypto';
import { mergeJsonText, mergePatch } from '@carillon/core/json-merge';
import { appendJsonFields } from '@carillon/core/json-object';
import { isWakeOnly } from '@carillon/core/push-options';
import type { ProviderPush } from '../../deliver/provider.ts';

/**
 * Maximum size of a plaintext: what push services must accept (RFC 8030, 7.2: 4,096 bytes), less 103 of the encryption
 * (RFC 8291, 4).
 */
export const MAX_PLAINTEXT_BYTES = 3_993;

/** Maximum time to live; push services store nothing longer. */
const MAX_TTL_SECONDS = 28 * 86_400;
/** Pattern of a valid topic (RFC 8030, 5.4). */
const TOPIC = /^[0-9A-Za-z_-]{1,32}$/;
/** Maximum length of a topic. */
const TOPIC_CHARACTERS = 32;

/** Encodes a push for a browser's service worker: its data, id and collapse key, and over them the request's own fields. */
export function encodePayload({ id, data, options, patches }: ProviderPush): Buffer {
  const own = { _pushyId: id, _pushyCollapseKey: options.collapse_key || undefined };
  return Buffer.from(mergeJsonText(appendJsonFields(data, own), patches?.web_push?.payload));
}

/**
 * Creates the headers for the push service (RFC 8030, 5.2 to 5.4), but for the time to live. Urgency is high, so that a
 * notification is shown at once; a push that only wakes the app may wait until the phone wakes.
 */
export function createHeaders({ options, patches }: ProviderPush): Record<string, string> {
  const { collapse_key: collapseKey, priority } = options;
  const made = {
    urgency: priority ?? (isWakeOnly(options) ? 'normal' : 'high'),
    ...(collapseKey && { topic: topicFor(collapseKey) }),
  };
  return mergePatch(made, patches?.web_push?.headers ?? {}) as Record<string, string>;
}

/**
 * Computes the seconds for which a push service stores a push; 0 means only for a browser that is reachable at once.
 */
export function computeTtlSeconds({ expiresAt, nowOnly }: ProviderPush, nowMs: number): number {
  if (nowOnly) return 0;
  const remainingSeconds = Math.floor((expiresAt.getTime() - nowMs) / 1_000);
  return Math.min(MAX_TTL_SECONDS, Math.max(0, remainingSeconds));
}

/**
 * Creates the header by which Windows keeps a push for a device that is not connected: without it, it decides itself
 * ("Push notification service request and response headers"). Other push services get none.
 */
export function createCacheHeader(host: string, ttlSeconds: number): Record<string, string> {
  if (!host.endsWith('.notify.windows.com')) return {};
  return { 'x-wns-cache-policy': ttlSeconds === 0 ? 'no-cache' : 'cache' };
}

/** Returns the collapse key if it is a valid topic, else its hash. */
function topicFor(collapseKey: string): string {
  if (TOPIC.test(collapseKey)) return collapseKey;
  const hash = createHash('sha256').update(collapseKey).digest('base64url');
  return hash.slice(0, TOPIC_CHARACTERS);
}
