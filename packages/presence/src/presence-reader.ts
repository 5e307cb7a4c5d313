import { decodeConnection, decodeGateway, type PresenceEntry } from './keys.ts';
import type { Shard, Shards } from './shards.ts';

/**
 * Gateway and connection of a device; undefined: it is offline. `failing` and `away`: the state of its shard
 * (shard-health.ts).
 */
export type Presence = PresenceEntry | 'failing' | 'away' | undefined;

/** Finds the gateways and connections of devices. */
export type PresenceReader = ReturnType<typeof createPresenceReader>;

/** Texts of presence entries, and the credits of the gateways in them that live. */
interface ReadEntries {
  texts: readonly (string | null)[];
  credits: ReadonlyMap<string, number>;
}

/**
 * Creates a presence reader. One MGET for each shard reads the presence entries and the leases of known gateways; a second
 * one reads only the leases of new gateways. A device whose gateway has no lease is offline, because the gateway died.
 */
export function createPresenceReader({ all, of }: Pick<Shards, 'all' | 'of'>) {
  const readers = all.map(createShardReader);

  async function readShard<T>(
    shard: Shard,
    tokens: readonly string[],
    decode: (entries: ReadEntries, shard: Shard) => T[],
  ): Promise<(T | 'failing' | 'away')[]> {
    try {
      const read = readers[shard.index];
      return read === undefined ? [] : decode(await read(tokens), shard);
    } catch (error) {
      const state = shard.state();
      if (state === 'responding') throw error;
      return tokens.map(() => state);
    }
  }

  /** Reads the entry of each device in its shard, in the order of the tokens. */
  async function readAll<T>(
    tokens: readonly string[],
    decode: (entries: ReadEntries, shard: Shard) => T[],
  ): Promise<(T | 'failing' | 'away' | undefined)[]> {
    const [only] = all;
    if (tokens.length === 0) return [];
    if (all.length === 1 && only !== undefined) return readShard(only, tokens, decode);
    const found = new Map<string, T | 'failing' | 'away'>();
    await Promise.all(
      [...groupByShard(tokens, of)].map(async ([shard, group]) => {
        const entries = await readShard(shard, group, decode);
        for (const [index, entry] of entries.entries()) found.set(group[index] ?? '', entry);
      }),
    );
    const entries = tokens.map((token) => found.get(token));
    if (entries.every((entry) => entry === 'failing')) throw new Error('presence fails');
    return entries;
  }

  return {
    /**
     * Returns the entry of each device in the order of the tokens.
     *
     * @throws if Redis fails and is the only server, or none of the queried shards has responded
     */
    lookup: (tokens: readonly string[]): Promise<Presence[]> => readAll(tokens, decodeEntries),
    /**
     * Returns which devices are known to be online, in the order of the tokens, without decoding more.
     *
     * @throws as `lookup`
     */
    async areOnline(tokens: readonly string[]): Promise<boolean[]> {
      return (await readAll(tokens, decodeOnline)).map((entry) => entry === true);
    },
  };
}

function decodeEntries(
  { texts, credits }: ReadEntries,
  { index }: Shard,
): (PresenceEntry | undefined)[] {
  let last: string | undefined;
  return texts.map((text) => {
    const gateway = decodeGateway(text, last);
    const credit = credits.get(gateway ?? '');
    if (gateway === undefined || credit === undefined) return undefined;
    last = gateway;
    const connection = decodeConnection(text, gateway);
    return connection ? { gateway, connection, credit, shard: index } : undefined;
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

function groupByShard(tokens: readonly string[], of: Shards['of']): Map<Shard, string[]> {
  const groups = new Map<Shard, string[]>();
  for (const token of tokens) {
    const shard = of(token);
    const group = groups.get(shard);
    if (group === undefined) groups.set(shard, [token]);
    else group.push(token);
  }
  return groups;
}

function createShardReader(shard: Shard) {
  const { keys } = shard;
  const readValues = createValueReader(shard);
  let knownGateways: string[] = [];

  return async (tokens: readonly string[]): Promise<ReadEntries> => {
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
function createValueReader({ run, redis }: Pick<Shard, 'run' | 'redis'>) {
  let movingUntil = Number.NEGATIVE_INFINITY;

  async function readValues(keys: string[]): Promise<(string | null)[]> {
    if (performance.now() < movingUntil) return Promise.all(keys.map((key) => redis.get(key)));
    try {
      return await redis.mget(keys);
    } catch (error) {
      // One command can't read keys of both nodes.
      if (!(error as Error).message.includes('TRYAGAIN')) throw error;
      movingUntil = performance.now() + MOVING_MS;
      return readValues(keys);
    }
  }

  return (keys: string[]) => run(() => readValues(keys));
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
