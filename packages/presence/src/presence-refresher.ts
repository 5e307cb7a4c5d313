import { startInterval } from '@carillon/core/intervals';
import { TTL_SECONDS } from './keys.ts';
import type { ConnectedDevice, PresenceRegistry } from './presence-registry.ts';

/** Interval between two ticks with work to do. */
const TICK_MS = 100;
/** Interval between two ticks with nothing to do: each wakes the process. */
const IDLE_TICK_MS = 1_000;
/** Maximum registrations in a tick. At 2,500 a second a gateway registers 15,000 devices again within 6 s. */
const REGISTRATIONS_PER_TICK = 250;
/** Interval between two refreshes of an entry: three within its lifetime. */
const REFRESH_INTERVAL_MS = (TTL_SECONDS.presence / 3) * 1_000;
/** Duration of the check of all entries after a reconnect; with it inboxes are read within 10 s. */
const RECHECK_WINDOW_MS = 8_000;
/** Maximum refreshes in a tick, however late the cycle is. */
const REFRESHES_PER_TICK = 500;
/** Age of writes that a restarted Redis may have lost (an append-only file synced each second). */
const REDIS_LOSS_WINDOW_MS = 10_000;

/**
 * Creates the refresher, which keeps the presence entries of a gateway's devices correct.
 *
 * @param on.devices returns all open connections
 * @param on.isOpen checks that a connection is still open
 * @param on.reregistered the device was registered late or again: workers saw it as offline, so its inbox must be read
 * @param on.recheckInbox the device was registered all the time, but a notice of an inbox row may have been lost with
 *   Redis's last seconds, so its inbox must be checked
 * @param on.takenOver the device has connected to another gateway
 * @param times.refreshIntervalMs time in which all entries are refreshed once
 */
export function createPresenceRefresher(
  registry: PresenceRegistry,
  on: {
    devices(): Iterable<ConnectedDevice>;
    isOpen(device: ConnectedDevice): boolean;
    reregistered(device: ConnectedDevice): void;
    recheckInbox(device: ConnectedDevice): void;
    takenOver(device: ConnectedDevice): void;
  },
  { refreshIntervalMs = REFRESH_INTERVAL_MS }: { refreshIntervalMs?: number } = {},
) {
  const unregistered = new Map<string, ConnectedDevice>();
  const unregistrations = createUnregistrations(registry);
  const cycle = createRefreshCycle(on.devices, refreshIntervalMs);
  /** Number of calls of `registerAll`. */
  let generation = 0;
  let lastProgressAt = performance.now();

  async function refreshDevices(devices: ConnectedDevice[], isRecheck: boolean): Promise<void> {
    const startGeneration = generation;
    const results = await registry.refresh(devices);
    // Written under a former identity; all devices are registered again anyway.
    if (generation !== startGeneration) return;
    for (const [index, device] of devices.entries()) {
      const wasUnregistered = unregistered.delete(device.connection);
      // The entry may have been missing and written, and only the response lost: then its inbox must be read.
      if (results[index] === 'unknown') unregistered.set(device.connection, device);
      else if (results[index] === 'taken-over') on.takenOver(device);
      else if (wasUnregistered || results[index] === 'lost') on.reregistered(device);
      else if (isRecheck) on.recheckInbox(device);
    }
  }

  async function tick(): Promise<void> {
    // The reconnect starts a check of all entries.
    if (!registry.isRedisReady()) return;
    const lateDevices = [...unregistered.values()].slice(0, REGISTRATIONS_PER_TICK);
    for (const device of lateDevices)
      if (!on.isOpen(device)) unregistered.delete(device.connection);
    const dueDevices = cycle.takeDue().filter(({ connection }) => !unregistered.has(connection));
    const devices = [...lateDevices, ...dueDevices].filter(on.isOpen);
    if (devices.length > 0) await refreshDevices(devices, cycle.isRecheck());
    await unregistrations.retryFailed();
    lastProgressAt = performance.now();
  }

  const hasWork = () =>
    unregistered.size > 0 || cycle.hasRemaining() || unregistrations.hasFailed();
  const idleTickMs = Math.min(IDLE_TICK_MS, refreshIntervalMs / 10);
  const ticker = startTicker(tick, { intervalMs: TICK_MS, idleTickMs, hasWork });
  function registerLater(device: ConnectedDevice): void {
    unregistered.set(device.connection, device);
    ticker.tickSoon();
  }
  return {
    stop: ticker.stop,
    /** Returns the time of the last finished run while Redis was connected, by the monotonic clock (`performance.now()`). */
    lastProgressAt: (): number => lastProgressAt,
    /** Registers a new connection. If Redis is unavailable, it is registered later and `reregistered` is called. */
    async register(device: ConnectedDevice): Promise<void> {
      try {
        await registry.register(device);
      } catch {
        if (on.isOpen(device)) registerLater(device);
      }
    },
    /** Removes the entry of a closed connection, now or once Redis is back. */
    async unregister(device: ConnectedDevice): Promise<void> {
      unregistered.delete(device.connection);
      await unregistrations.remove(device);
      if (unregistrations.hasFailed()) ticker.tickSoon();
    },
    /** Registers all devices again over several ticks, under a new identity. */
    registerAll(): void {
      generation += 1;
      for (const device of on.devices()) unregistered.set(device.connection, device);
      ticker.tickSoon();
    },
    /** Checks all entries over several ticks, because Redis is back and may have lost its last seconds. */
    recheckAll(): void {
      cycle.startRecheck();
      unregistrations.repeatRecent();
      ticker.tickSoon();
    },
  };
}

/**
 * Runs a task periodically, one run at a time. A failed run is retried at the next tick.
 *
 * @param intervalMs time until the next tick while there is work
 * @param idleTickMs interval of the ticks that look for work, together with the other periodic tasks of the process
 */
function startTicker(
  task: () => Promise<void>,
  {
    intervalMs,
    idleTickMs,
    hasWork,
  }: { intervalMs: number; idleTickMs: number; hasWork: () => boolean },
) {
  let timer: NodeJS.Timeout | undefined;
  let isRunning = false;
  let isStopped = false;

  function schedule(): void {
    // A call in each interval must not put the tick off for ever.
    if (isStopped || isRunning || timer !== undefined) return;
    timer = setTimeout(() => void run(), intervalMs);
  }

  async function run(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    isRunning = true;
    await task().catch(() => undefined);
    isRunning = false;
    if (hasWork()) schedule();
  }

  const stopIdleTicks = startInterval(() => {
    if (!isRunning && timer === undefined) void run();
  }, idleTickMs);
  return {
    /** Has the next tick come after the interval at most: there is work. */
    tickSoon: schedule,
    stop(): void {
      isStopped = true;
      clearTimeout(timer);
      stopIdleTicks();
    },
  };
}

/** Creates the refresh cycle: it visits all connections again and again, spread over the interval. */
function createRefreshCycle(
  allDevices: () => Iterable<ConnectedDevice>,
  refreshIntervalMs: number,
) {
  /** Remaining devices, taken from the end. */
  let devices: ConnectedDevice[] = [];
  let startedAt = performance.now();
  let windowMs = refreshIntervalMs;
  /** Set if notices of inbox rows may have been lost too. */
  let isRecheck = false;

  function start(remaining: ConnectedDevice[], durationMs: number): void {
    devices = remaining;
    startedAt = performance.now();
    windowMs = durationMs;
  }

  return {
    isRecheck: () => isRecheck,
    /** Checks whether devices of this cycle are left. */
    hasRemaining: () => devices.length > 0,
    /** Returns the devices to refresh in this tick. */
    takeDue(): ConnectedDevice[] {
      const elapsedMs = performance.now() - startedAt;
      if (elapsedMs >= refreshIntervalMs) {
        isRecheck &&= devices.length > 0;
        start([...allDevices()], refreshIntervalMs * 0.9);
        return [];
      }
      const ticksLeft = Math.max(1, Math.floor((windowMs - elapsedMs) / TICK_MS));
      const count = Math.min(REFRESHES_PER_TICK, Math.ceil(devices.length / ticksLeft));
      return devices.splice(devices.length - count);
    },
    /** Starts a faster cycle at once. */
    startRecheck(): void {
      const all = [...allDevices()];
      // A random start, so that repeated losses of Redis do not always hit the same device last.
      const startIndex = Math.floor(Math.random() * all.length);
      isRecheck = true;
      // Random duration, because all gateways reconnect to Redis at the same time.
      start(
        [...all.slice(startIndex), ...all.slice(0, startIndex)],
        RECHECK_WINDOW_MS * (0.75 + Math.random() / 4),
      );
    },
  };
}

/** Creates the removal of entries, which is repeated later if Redis is unavailable. */
function createUnregistrations(registry: PresenceRegistry) {
  const failed = new Map<string, ConnectedDevice>();
  /** Connections whose failed removal a timer ends: one for each, however often it is repeated. */
  const expiring = new Set<string>();
  /** Recently removed devices, oldest first, with the time of removal. */
  const recent = new Map<ConnectedDevice, number>();

  function addRecent(device: ConnectedDevice): void {
    const now = performance.now();
    for (const [oldest, unregisteredAt] of recent) {
      if (now - unregisteredAt < REDIS_LOSS_WINDOW_MS) break;
      recent.delete(oldest);
    }
    recent.set(device, now);
  }

  function expireLater(connection: string): void {
    if (expiring.has(connection)) return;
    expiring.add(connection);
    // An entry expires by itself after this time.
    setTimeout(() => {
      expiring.delete(connection);
      failed.delete(connection);
    }, TTL_SECONDS.presence * 1_000).unref();
  }

  async function unregisterOrDefer(device: ConnectedDevice): Promise<void> {
    try {
      await registry.unregister(device);
      addRecent(device);
    } catch {
      failed.set(device.connection, device);
      expireLater(device.connection);
    }
  }

  return {
    remove: unregisterOrDefer,
    hasFailed: () => failed.size > 0,
    /** Retries failed removals. */
    async retryFailed(): Promise<void> {
      const failedDevices = [...failed.values()].slice(0, REGISTRATIONS_PER_TICK);
      for (const { connection } of failedDevices) failed.delete(connection);
      await Promise.all(failedDevices.map(unregisterOrDefer));
    },
    /** Repeats recent removals, which Redis may have lost. */
    repeatRecent(): void {
      for (const device of recent.keys()) failed.set(device.connection, device);
      recent.clear();
    },
  };
}
