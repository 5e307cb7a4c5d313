import { setTimeout as sleep } from 'node:timers/promises';

/** A shard that has failed for so long is away; a failover takes less. */
const AWAY_AFTER_MS = 10_000;
const PROBE_INTERVAL_MS = 300;

/**
 * State of a shard: `failing` is for moments, as during a failover, and worth another attempt; a shard that is `away`
 * has failed for 10 s while others respond.
 */
export type ShardState = 'responding' | 'failing' | 'away';

/** What a process knows of a shard. */
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

/**
 * Creates the health of a shard. A failed command makes it `failing`; from then on only a probe asks the server, until it
 * responds.
 *
 * @param on.isAnyResponding checks whether another shard responds
 * @param on.onFailure is called when the shard begins to fail
 */
export function createShardHealth(
  { name, time }: { name: string; time(): Promise<unknown> },
  on: { isOnly: boolean; isAnyResponding(): boolean; onFailure(error: Error): void },
): ShardHealth {
  if (on.isOnly) return ONLY_SHARD;
  let failingSince: number | undefined;
  let isStopped = false;

  async function probeUntilBack(): Promise<void> {
    while (failingSince !== undefined && !isStopped) {
      await sleep(PROBE_INTERVAL_MS, undefined, { ref: false });
      if (await isBack()) failingSince = undefined;
    }
  }

  const isBack = (): Promise<boolean> =>
    time().then(
      () => true,
      () => false,
    );

  function fail(cause: unknown): void {
    if (failingSince !== undefined || isStopped) return;
    failingSince = performance.now();
    on.onFailure(new Error(`presence at ${name} fails`, { cause }));
    void probeUntilBack();
  }

  return {
    state() {
      if (failingSince === undefined) return 'responding';
      const isLong = performance.now() - failingSince >= AWAY_AFTER_MS;
      return isLong && on.isAnyResponding() ? 'away' : 'failing';
    },
    async ask(commands) {
      if (failingSince !== undefined) throw new Error(`presence at ${name} fails`);
      try {
        return await commands();
      } catch (error) {
        fail(error);
        throw error;
      }
    },
    stop() {
      isStopped = true;
    },
  };
}
