/** Lifetimes in Redis, in seconds. */
export const TTL = {
  /** A device's place; refreshed by its gateway well before it ends. */
  place: 300,
  /** A gateway's lease and its hand-over stream. */
  lease: 12,
  /** A worker's reply stream; longer than any claim, so that a successor can read it. */
  replies: 600,
} as const;

/** Where a device is connected. */
export interface Place {
  gateway: string;
  connection: string;
  /** Recipients the gateway said it takes now; with 0 nothing is handed over. */
  credit: number;
}

/** Holds the {@link writePlace} of a device. */
export function placeKey(token: string): string {
  return `p:${token}`;
}

/** Exists while the gateway lives; holds its credit. */
export function leaseKey(gateway: string): string {
  return `g:${gateway}`;
}

/** The stream of what workers hand over to a gateway. */
export function handOverKey(gateway: string): string {
  return `h:${gateway}`;
}

/** The stream of answers to one worker. */
export function replyKey(worker: string): string {
  return `r:${worker}`;
}

/** Ids are base64url, so `|` separates. */
export function writePlace(gateway: string, connection: string): string {
  return `${gateway}|${connection}`;
}

/** The reverse of {@link writePlace}; undefined for what we never wrote. */
export function readPlace(
  text: string | null | undefined,
): { gateway: string; connection: string } | undefined {
  const [gateway, connection] = (text ?? '').split('|');
  if (!gateway || !connection) return undefined;
  return { gateway, connection };
}
