import { IDLE_AFTER_DAYS } from '@carillon/store/idle-devices';
import type { Store } from '@carillon/store/store';

/** Maximum devices that are counted: about 20 ms of MongoDB. */
const MAX_COUNTED = 10_000;
const DAY_MS = 86_400_000;

/** Counts the devices of an app that were not seen for `days`; `isAtLeast`: there may be more. */
export async function countIdleDevices(
  { idleDevices, clock }: Pick<Store, 'idleDevices' | 'clock'>,
  app: string,
): Promise<{ count: number; isAtLeast: boolean; days: number }> {
  const before = new Date(clock.now() - IDLE_AFTER_DAYS * DAY_MS);
  const count = await idleDevices.count(app, before, MAX_COUNTED);
  return { count, isAtLeast: count >= MAX_COUNTED, days: IDLE_AFTER_DAYS };
}
