import {
  decodeGateway,
  decodePresence,
  leaseKey,
  type PresenceEntry,
  presenceKey,
} from './keys.ts';
import type { Redis } from './redis.ts';

/** Looks up where devices are connected. */
export type PresenceReader = ReturnType<typeof createPresenceReader>;

/**
 * Creates a presence reader. One MGET reads the presence entries and the leases of known gateways; a second one reads
 * only the leases of new gateways. A device whose gateway has no lease is offline, because the gateway died.
 */
export function createPresenceReader(redis: Redis) {
  let knownGateways: string[] = [];

  /** Reads the texts of presence entries, and the credits of the gateways in them that live. */
  async function read(tokens: readonly string[]) {
    const queriedGateways = knownGateways;
    const values = await redis.mget([...tokens.map(presenceKey), ...queriedGateways.map(leaseKey)]);
    const leases = values.splice(tokens.length);
    const credits = new Map<string, number>();
    collectCredits(credits, queriedGateways, leases);
    const newGateways = new Set<string>();
    for (const text of values) {
      const gateway = decodeGateway(text);
      if (gateway !== undefined && !queriedGateways.includes(gateway)) newGateways.add(gateway);
    }
    if (newGateways.size > 0) {
      const gateways = [...newGateways];
      collectCredits(credits, gateways, await redis.mget(gateways.map(leaseKey)));
    }
    knownGateways = [...credits.keys()];
    return { entries: values, credits };
  }

  /** Returns the entry of each device in the order of the tokens; undefined if it is offline. Throws if Redis fails. */
  async function lookup(tokens: readonly string[]): Promise<(PresenceEntry | undefined)[]> {
    if (tokens.length === 0) return [];
    const { entries, credits } = await read(tokens);
    return entries.map((text) => {
      const entry = decodePresence(text);
      const credit = entry && credits.get(entry.gateway);
      return entry && credit !== undefined ? { ...entry, credit } : undefined;
    });
  }

  /** Returns which devices are online, in the order of the tokens, without decoding more. Throws if Redis fails. */
  async function areOnline(tokens: readonly string[]): Promise<boolean[]> {
    if (tokens.length === 0) return [];
    const { entries, credits } = await read(tokens);
    return entries.map((text) => credits.has(decodeGateway(text) ?? ''));
  }

  return { lookup, areOnline };
}

function collectCredits(
  credits: Map<string, number>,
  gateways: readonly string[],
  values: readonly (string | null)[],
): void {
  for (const [index, gateway] of gateways.entries()) {
    const credit = values[index];
    if (typeof credit === 'string') credits.set(gateway, Number(credit));
  }
}
