import { decodeConnection, decodeGateway, type PresenceEntry } from './keys.ts';
import type { PresenceServer } from './presence-server.ts';
import type { Redis } from './redis.ts';

/** Finds the gateways and connections of devices. */
export type PresenceReader = ReturnType<typeof createPresenceReader>;

/** Texts of presence entries, and the credits of the gateways in them that live. */
interface ReadEntries {
  texts: readonly (string | null)[];
  credits: ReadonlyMap<string, number>;
}

/**
 * Creates a presence reader. One MGET reads the presence entries and the leases of known gateways; a second one reads only
 * the leases of new gateways. A device whose gateway has no lease is offline, because the gateway died.
 */
export function createPresenceReader(server: Pick<PresenceServer, 'redis' | 'keys'>) {
  const read = createEntryReader(server);
  return {
    /**
     * Returns the entry of each device in the order of the tokens, undefined for an offline one. Throws if Redis fails.
     */
    lookup: async (tokens: readonly string[]): Promise<(PresenceEntry | undefined)[]> =>
      decodeEntries(await read(tokens)),
    /** Returns which devices are online, in the order of the tokens, without decoding more. Throws if Redis fails. */
    areOnline: async (tokens: readonly string[]): Promise<boolean[]> =>
      decodeOnline(await read(tokens)),
  };
}

function decodeEntries({ texts, credits }: ReadEntries): (PresenceEntry | undefined)[] {
  let last: string | undefined;
  return texts.map((text) => {
    const gateway = decodeGateway(text, last);
    const credit = credits.get(gateway ?? '');
    if (gateway === undefined || credit === undefined) return undefined;
    last = gateway;
    const connection = decodeConnection(text, gateway);
    return connection ? { gateway, connection, credit } : undefined;
  });
}

function decodeOnline({ texts, credits }: ReadEntries): boolean[] {
  let last: string | undefined;
  return texts.map((text) => {
    const gateway = decodeGateway(text, last);
    last = gateway ?? last;
    return gateway !== undefined && credits.has(gateway);
  });
}

function createEntryReader({ redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>) {
  const readValues = createValueReader(redis);
  let knownGateways: string[] = [];

  return async (tokens: readonly string[]): Promise<ReadEntries> => {
    if (tokens.length === 0) return { texts: [], credits: new Map() };
    const queriedGateways = knownGateways;
    const texts = await readValues([
      ...tokens.map(keys.presence),
      ...queriedGateways.map(keys.lease),
    ]);
    const leases = texts.splice(tokens.length);
    const credits = new Map<string, number>();
    collectCredits(credits, queriedGateways, leases);
    const newGateways = new Set<string>();
    let last: string | undefined;
    for (const text of texts) {
      const gateway = decodeGateway(text, last);
      // Of consecutive devices of one gateway only the first is compared with all gateways.
      if (gateway === undefined || gateway === last) continue;
      last = gateway;
      if (!queriedGateways.includes(gateway)) newGateways.add(gateway);
    }
    if (newGateways.size > 0) {
      const gateways = [...newGateways];
      collectCredits(credits, gateways, await readValues(gateways.map(keys.lease)));
    }
    knownGateways = [...credits.keys()];
    return { texts, credits };
  };
}

/** Time after the move of a slot for which its keys are read one by one. */
const MOVING_MS = 5_000;

/** Creates the function that reads the values of keys: with one command, unless their slot is being moved. */
function createValueReader(redis: Redis) {
  let movingUntil = Number.NEGATIVE_INFINITY;

  return async function readValues(keys: string[]): Promise<(string | null)[]> {
    if (performance.now() < movingUntil) return Promise.all(keys.map((key) => redis.get(key)));
    try {
      return await redis.mget(keys);
    } catch (error) {
      // One command can't read keys of both nodes.
      if (!(error as Error).message.includes('TRYAGAIN')) throw error;
      movingUntil = performance.now() + MOVING_MS;
      return readValues(keys);
    }
  };
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
