import { setTimeout as sleep } from 'node:timers/promises';
import { writeProbe } from './redis.ts';
import type { ShardServer } from './shard-server.ts';

/** Time after which a failing shard is `away`; a failover takes less. */
const AWAY_AFTER_MS = 10_000;
const PROBE_INTERVAL_MS = 300;

/**
 * State of a shard. A `failing` one has failed for a short time, as during a failover, and is tried again; one that is
 * `away` has failed for 10 s while others respond.
 */
export type ShardState = 'responding' | 'failing' | 'away';

/** Health of a shard as one process sees it. Implementations: `createShardsHealth` and `ONLY_SHARD`. */
export interface ShardHealth {
  state(): ShardState;
  /**
   * Runs commands. While the shard fails, they fail at once, so that no caller waits for its server.
   *
   * @throws what the commands throw
   */
  run<T>(commands: () => Promise<T>): Promise<T>;
  stop(): void;
}

/**
 * The only shard is always called: no work is possible without it, and its connection detects that its server is
 * unavailable.
 */
const ONLY_SHARD: ShardHealth = {
  state: () => 'responding',
  run: (commands) => commands(),
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
  return shards.map(({ failingMs, run, stop }) => ({
    state() {
      const ms = failingMs();
      if (ms === undefined) return 'responding';
      return ms >= AWAY_AFTER_MS && isAnyResponding() ? 'away' : 'failing';
    },
    run,
    stop,
  }));
}

/** A failed command makes a shard `failing`; from then on only a probe calls its server, until it accepts a write. */
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
    async run<T>(commands: () => Promise<T>): Promise<T> {
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
