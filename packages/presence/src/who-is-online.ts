import { leaseKey, type Place, placeKey, readPlace } from './keys.ts';

/** Tells where devices are connected. */
export interface WhoIsOnline {
  /** The place of each device in the order of the tokens; undefined: offline. Throws when Redis fails. */
  look(tokens: readonly string[]): Promise<(Place | undefined)[]>;
}

interface Reader {
  mget(keys: string[]): Promise<(string | null)[]>;
}

/**
 * One MGET reads places and the leases of the gateways met so far; a second one only the leases of new
 * gateways. A place whose gateway's lease is gone is a gateway that died: offline.
 */
export function createWhoIsOnline(redis: Reader): WhoIsOnline {
  let known: string[] = [];

  async function look(tokens: readonly string[]): Promise<(Place | undefined)[]> {
    if (tokens.length === 0) return [];
    const asked = known;
    const values = await redis.mget([...tokens.map(placeKey), ...asked.map(leaseKey)]);
    const places = values.slice(0, tokens.length).map(readPlace);
    const credits = new Map<string, number>();
    noteLeases(credits, asked, values.slice(tokens.length));
    const met = new Set(places.flatMap((place) => (place ? [place.gateway] : [])));
    const strangers = [...met].filter((gateway) => !asked.includes(gateway));
    if (strangers.length > 0) {
      noteLeases(credits, strangers, await redis.mget(strangers.map(leaseKey)));
    }
    known = [...credits.keys()];
    return places.map((place) => {
      const credit = place && credits.get(place.gateway);
      return place && credit !== undefined ? { ...place, credit } : undefined;
    });
  }

  return { look };
}

function noteLeases(
  into: Map<string, number>,
  gateways: readonly string[],
  values: readonly (string | null)[],
): void {
  for (const [index, gateway] of gateways.entries()) {
    const credit = values[index];
    if (typeof credit === 'string') into.set(gateway, Number(credit));
  }
}
