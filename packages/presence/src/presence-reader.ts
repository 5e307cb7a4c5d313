import { decodePresence, leaseKey, type PresenceEntry, presenceKey } from './keys.ts';
import type { Redis } from './redis.ts';

/** Looks up where devices are connected. */
export type PresenceReader = ReturnType<typeof createPresenceReader>;

/**
 * Creates a presence reader. One MGET reads the presence entries and the leases of known gateways; a second one reads
 * only the leases of new gateways. A device whose gateway has no lease is offline, because the gateway died.
 */
export function createPresenceReader(redis: Redis) {
  let knownGateways: string[] = [];

  /** Returns the entry of each device in the order of the tokens; undefined if it is offline. Throws if Redis fails. */
  async function lookup(tokens: readonly string[]): Promise<(PresenceEntry | undefined)[]> {
    if (tokens.length === 0) return [];
    const queriedGateways = knownGateways;
    const values = await redis.mget([...tokens.map(presenceKey), ...queriedGateways.map(leaseKey)]);
    const entries = values.slice(0, tokens.length).map(decodePresence);
    const credits = new Map<string, number>();
    collectCredits(credits, queriedGateways, values.slice(tokens.length));
    const seenGateways = new Set(entries.flatMap((entry) => (entry ? [entry.gateway] : [])));
    const newGateways = [...seenGateways].filter((gateway) => !queriedGateways.includes(gateway));
    if (newGateways.length > 0) {
      collectCredits(credits, newGateways, await redis.mget(newGateways.map(leaseKey)));
    }
    knownGateways = [...credits.keys()];
    return entries.map((entry) => {
      const credit = entry && credits.get(entry.gateway);
      return entry && credit !== undefined ? { ...entry, credit } : undefined;
    });
  }

  return { lookup };
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
