import { setTimeout as sleep } from 'node:timers/promises';
import { writeProbe } from './redis.ts';
import type { ShardServer } from './shard-server.ts';

/** A shard that has failed for so long is away; a failover takes less. */
export const AWAY_AFTER_MS = 10_000;
const PROBE_INTERVAL_MS = 300;

/**
 * State of a shard: `failing` is for moments, as during a failover, and worth another attempt; a shard that is `away`
 * has failed for 10 s while others respond.
 */
export type ShardState = 'responding' | 'failing' | 'away';

/** What a process knows of a shard. Implementations: `createShardsHealth` and `ONLY_SHARD`. */
export interface ShardHealth {
  state(): ShardState;
  /**
   * Runs commands. While the shard fails, they fail at once, so that nobody waits for its server.
   *
   * @throws what the commands throw
   */
  ask<T>(commands: () => Promise<T>): Promise<T>;
  stop(): void;
}

/** The only shard is always asked: nothing goes on without it, and its connection knows when its server is away. */
const ONLY_SHARD: ShardHealth = {
  state: () => 'responding',
  ask: (commands) => commands(),
  stop: () => undefined,
};

type Probed = Pick<ShardServer, 'name' | 'redis' | 'keys'>;

/**
 * Creates the health of each shard.
 *
 * @param onFailure is called when a shard begins to fail
 */
export function createShardsHealth(
  servers: readonly Probed[],
  onFailure: (error: Error) => void,
): ShardHealth[] {
  if (servers.length === 1) return [ONLY_SHARD];
  const shards = servers.map((server) => createShardHealth(server, onFailure));
  const isAnyResponding = () => shards.some(({ failingMs }) => failingMs() === undefined);
  return shards.map(({ failingMs, ask, stop }) => ({
    state() {
      const ms = failingMs();
      if (ms === undefined) return 'responding';
      return ms >= AWAY_AFTER_MS && isAnyResponding() ? 'away' : 'failing';
    },
    ask,
    stop,
  }));
}

/** A failed command makes a shard fail; from then on only a probe asks its server, until it takes a write. */
function createShardHealth({ name, redis, keys }: Probed, onFailure: (error: Error) => void) {
  let failingSince: number | undefined;
  let isStopped = false;

  async function probeUntilBack(): Promise<void> {
    while (failingSince !== undefined && !isStopped) {
      await sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
      if (await isBack()) failingSince = undefined;
    }
  }

  const isBack = (): Promise<boolean> =>
    redis.set(...writeProbe(keys.probe)).then(
      () => true,
      () => false,
    );

  function fail(cause: unknown): void {
    if (failingSince !== undefined || isStopped) return;
    failingSince = performance.now();
    onFailure(new Error(`presence at ${name} fails`, { cause }));
    void probeUntilBack();
  }

  return {
    /** Returns for how long it has failed; undefined while it responds. */
    failingMs: (): number | undefined =>
      failingSince === undefined ? undefined : performance.now() - failingSince,
    async ask<T>(commands: () => Promise<T>): Promise<T> {
      if (failingSince !== undefined) throw new Error(`presence at ${name} fails`);
      try {
        return await commands();
      } catch (error) {
        fail(error);
        throw error;
      }
    },
    stop(): void {
      isStopped = true;
    },
  };
}
