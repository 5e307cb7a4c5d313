import type { TestStore } from '../../../test/support/open-store.ts';
import { APP } from './document-fixtures.ts';
import type { StoreUnderTest } from './store-under-test.ts';

const YEAR_MS = 365 * 86_400_000;

/** Registers a device a year ago that was not seen since. */
export async function registerIdle(
  { db, store }: Pick<StoreUnderTest, 'db' | 'store'>,
  platform: 'electron' | 'android' = 'electron',
) {
  const device = await store.devices.register(APP, platform);
  const longAgo = new Date(store.clock.now() - YEAR_MS);
  const seen = { $set: { registeredAt: longAgo, lastActiveAt: longAgo } };
  await db.collection<{ _id: string }>('devices').updateOne({ _id: device.token }, seen);
  return device;
}

/** Prunes it if it was not seen for half a year. */
export async function pruneIdle(by: TestStore, token: string): Promise<void> {
  const before = new Date(by.clock.now() - YEAR_MS / 2);
  const deleted = await by.deletedDevices.deleteIdle(APP, [token], before);
  await by.deletedDevices.clearIdle(APP, deleted);
}
