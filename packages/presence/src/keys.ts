/** Lifetimes in Redis, in seconds. */
export const TTL_SECONDS = {
  /** Presence entry of a device; its gateway refreshes it well before it expires. */
  presence: 300,
  /** Lease and stream of a gateway. */
  lease: 12,
  /** Reply stream of a worker; longer than any claim, so that the worker's successor can read it. */
  replies: 600,
} as const;

/** Gateway and connection of a device. */
export interface PresenceEntry {
  gateway: string;
  connection: string;
  /** Number of recipients that the gateway accepts now; with 0 nothing is dispatched to it. */
  credit: number;
}

/** Returns the key of a device's presence entry ({@link encodePresence}). */
export function presenceKey(token: string): string {
  return `p:${token}`;
}

/** Returns the key of a gateway's lease, which exists while the gateway lives and holds its credit. */
export function leaseKey(gateway: string): string {
  return `g:${gateway}`;
}

/** Returns the key of a gateway's stream, to which workers dispatch. */
export function gatewayStreamKey(gateway: string): string {
  return `h:${gateway}`;
}

/** Returns the key of a worker's reply stream. */
export function replyStreamKey(worker: string): string {
  return `r:${worker}`;
}

/**
 * Encodes a presence entry. Ids are base64url, so `|` is a safe separator.
 *
 * @param connectedAt milliseconds, Redis's time; decides which of two connections is newer
 */
export function encodePresence(gateway: string, connection: string, connectedAt: number): string {
  return `${gateway}|${connection}|${connectedAt}`;
}

/** Decodes the text of {@link encodePresence}; undefined for a missing or foreign value. */
export function decodePresence(
  text: string | null | undefined,
): { gateway: string; connection: string } | undefined {
  const [gateway, connection] = (text ?? '').split('|');
  if (!gateway || !connection) return undefined;
  return { gateway, connection };
}

/** Decodes only the gateway of the text of {@link encodePresence}; undefined for a missing or foreign value. */
export function decodeGateway(text: string | null | undefined): string | undefined {
  const end = text?.indexOf('|') ?? -1;
  return end > 0 ? text?.slice(0, end) : undefined;
}
