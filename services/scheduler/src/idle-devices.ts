import type { Metrics } from '@carillon/runtime/metrics';
import { IDLE_AFTER_DAYS } from '@carillon/store/idle-devices';
import type { Store } from '@carillon/store/store';

/** Time from the end of a count to the next one. */
const COUNT_INTERVAL_MS = 3_600_000;
/** Apps that are listed together. */
const APPS_PER_READ = 100;
/** Time in one tick for the count; the next tick continues it. */
const TICK_BUDGET_MS = 500;
/** Maximum devices of an app that are counted. */
const MAX_PER_APP = 100_000;
const DAY_MS = 86_400_000;

/**
 * Counts the idle devices of all apps, some apps a tick, and exports the sum; 0 until the first count of this process has ended. An
 * app whose count fails is left out.
 *
 * @returns the function of a tick, which does not reject
 */
export function exportIdleDevices(
  metrics: Metrics,
  { apps, idleDevices, clock }: Pick<Store, 'apps' | 'idleDevices' | 'clock'>,
  onError: (error: unknown) => void,
): () => Promise<void> {
  let total = 0;
  let counted = 0;
  let after = '';
  let dueAt = 0;
  metrics.createGauge('carillon_idle_devices', () => total);

  async function countSome(): Promise<void> {
    const deadline = performance.now() + TICK_BUDGET_MS;
    while (performance.now() >= dueAt && performance.now() < deadline) {
      const page = await apps.list(undefined, after, APPS_PER_READ);
      const before = new Date(clock.now() - IDLE_AFTER_DAYS * DAY_MS);
      for (const { _id } of page) {
        after = _id;
        counted += await idleDevices.count(_id, before, MAX_PER_APP).catch((error: unknown) => {
          onError(error);
          return 0;
        });
        if (performance.now() >= deadline) return;
      }
      if (page.length === APPS_PER_READ) continue;
      total = counted;
      counted = 0;
      after = '';
      dueAt = performance.now() + COUNT_INTERVAL_MS;
    }
  }

  return () => countSome().catch(onError);
}
