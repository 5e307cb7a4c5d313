import { createHash } from 'node:crypto';
import { withFields } from '@carillon/core/json-object';
import type { ProviderPush } from '../../deliver/provider.ts';

/** What push services must take (RFC 8030, 7.2: 4,096 bytes), less the encryption's own 103 (RFC 8291, 4). */
export const MAX_PLAINTEXT_BYTES = 3_993;

/** The push services keep nothing longer. */
const MAX_TTL_SECONDS = 28 * 86_400;
/** RFC 8030, 5.4. */
const TOPIC = /^[0-9A-Za-z_-]{1,32}$/;
const TOPIC_CHARACTERS = 32;

/** A push as a browser's worker gets it: its data, and what the worker needs to know besides. */
export function encodePayload({ id, data, options }: ProviderPush): Buffer {
  return Buffer.from(
    withFields(data, { _pushyId: id, _pushyCollapseKey: options.collapseKey || undefined }),
  );
}

/**
 * The headers that tell a push service how to keep a push (RFC 8030, 5.2 to 5.4), all but the time to live.
 * Urgency is high, as people are meant to see it at once; what an app only asks to wake it for may wait for
 * a phone's next waking.
 */
export function describePush({ options }: ProviderPush): Record<string, string> {
  const { collapseKey, contentAvailable, notification } = options;
  const isSilent = contentAvailable === true && notification === undefined;
  return {
    urgency: isSilent ? 'normal' : 'high',
    ...(collapseKey && { topic: topicOf(collapseKey) }),
  };
}

/** Seconds for which a push service shall keep a push; 0: only for a browser that is there now. */
export function ttlSeconds({ expiresAt, nowOnly }: ProviderPush, nowMs: number): number {
  if (nowOnly) return 0;
  const left = Math.floor((expiresAt.getTime() - nowMs) / 1_000);
  return Math.min(MAX_TTL_SECONDS, Math.max(0, left));
}

/** A collapse key as it is where a topic may look like that, else its hash. */
function topicOf(collapseKey: string): string {
  if (TOPIC.test(collapseKey)) return collapseKey;
  const hash = createHash('sha256').update(collapseKey).digest('base64url');
  return hash.slice(0, TOPIC_CHARACTERS);
}
