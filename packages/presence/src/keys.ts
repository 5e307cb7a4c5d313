/** TTLs of keys in Redis, in seconds. */
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

/** Returns the names of the keys of presence. */
export type PresenceKeys = ReturnType<typeof createPresenceKeys>;

/**
 * Creates the names of the keys of presence.
 *
 * @param tag hash tag that keeps all of them in one slot of a cluster
 */
export function createPresenceKeys(tag?: string) {
  const prefix = tag === undefined ? '' : `{${tag}}:`;
  return {
    /** Presence entry of a device ({@link encodePresence}). */
    presence: (token: string): string => `p:${prefix}${token}`,
    /** Lease of a gateway, which exists while the gateway lives and holds its credit. */
    lease: (gateway: string): string => `g:${prefix}${gateway}`,
    /** Stream of a gateway, to which workers dispatch. */
    gatewayStream: (gateway: string): string => `h:${prefix}${gateway}`,
    /** Reply stream of a worker. */
    replyStream: (worker: string): string => `r:${prefix}${worker}`,
    /** Counter of a rate limit. */
    counter: (key: string): string => `n:${prefix}${key}`,
    /** Holders of a limited number of slots. */
    slots: (key: string): string => `slots:${prefix}${key}`,
    /** A key that nothing reads. */
    probe: `probe:${prefix}write`,
  };
}

/** Separator of ids, which are base64url and don't contain it. */
const SEPARATOR = '|';

/**
 * Encodes a presence entry.
 *
 * @param connectedAt milliseconds, Redis's time; decides which of two connections is newer
 */
export function encodePresence(gateway: string, connection: string, connectedAt: number): string {
  return `${gateway}${SEPARATOR}${connection}${SEPARATOR}${connectedAt}`;
}

/** Decodes the text of {@link encodePresence}; undefined for a missing or foreign value. */
export function decodePresence(
  text: string | null | undefined,
): { gateway: string; connection: string } | undefined {
  const gateway = decodeGateway(text);
  const connection = gateway && decodeConnection(text, gateway);
  return connection ? { gateway, connection } : undefined;
}

/**
 * Decodes only the gateway of the text of {@link encodePresence}; undefined for a missing or foreign value.
 *
 * @param guess is returned if it is the gateway: many devices have few gateways, whose strings are used again
 */
export function decodeGateway(text: string | null | undefined, guess = ''): string | undefined {
  if (text === null || text === undefined) return undefined;
  if (guess !== '' && text.startsWith(guess) && text[guess.length] === SEPARATOR) return guess;
  const end = text.indexOf(SEPARATOR);
  return end > 0 ? text.slice(0, end) : undefined;
}

/** Decodes the connection of the text of {@link encodePresence}; empty or undefined for a foreign value. */
export function decodeConnection(
  text: string | null | undefined,
  gateway: string,
): string | undefined {
  const from = gateway.length + SEPARATOR.length;
  const end = text?.indexOf(SEPARATOR, from) ?? -1;
  return end === -1 ? text?.slice(from) : text?.slice(from, end);
}
