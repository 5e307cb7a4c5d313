import { setTimeout as pause } from 'node:timers/promises';
import { newDeviceToken } from '@carillon/core/ids';
import type { Platform } from '@carillon/core/platforms';
import type { Collection, UpdateFilter } from 'mongodb';
import type { Clock } from './clock.ts';
import type { DeviceDocument, ProviderAddress } from './documents.ts';
import { isDuplicateKey } from './failures.ts';

const TRIES = 12;
const PAUSE_MS = 10;

/** So many devices claimed one provider's address at the same moment that this one gave up. */
export class AddressContested extends Error {}

/** New devices, and what they say of themselves later. */
export function createRegistering(devices: Collection<DeviceDocument>, clock: Clock) {
  /**
   * Takes a provider's address from the devices of the app that had it: an installation that registers again is
   * a new device, and the one before is gone. Returns their tokens.
   */
  async function retire(app: string, address: string, except: string): Promise<string[]> {
    const holders = { app, 'provider.address': address, _id: { $ne: except } };
    const found = await devices.find(holders, { projection: { _id: 1 } }).toArray();
    if (found.length === 0) return [];
    await devices.updateMany(holders, {
      $currentDate: { deletedAt: true },
      $unset: { provider: true },
    });
    return found.map(({ _id }) => _id);
  }

  /** Repeats `write` after `retire` while two devices claim one address at the same moment. */
  async function withAddress(
    app: string,
    token: string,
    address: ProviderAddress | undefined,
    write: () => Promise<unknown>,
  ): Promise<string[]> {
    const replaced: string[] = [];
    for (let tries = 1; ; tries += 1) {
      if (address !== undefined) replaced.push(...(await retire(app, address.address, token)));
      try {
        await write();
        return replaced;
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
        if (tries === TRIES) throw new AddressContested();
        await pause(Math.random() * PAUSE_MS * tries);
      }
    }
  }

  return {
    /** Registers a device. @throws AddressContested. `replaced`: devices that were this installation before, which are deleted now. */
    async register(
      app: string,
      platform: Platform,
      address?: ProviderAddress,
    ): Promise<{ token: string; replaced: string[] }> {
      const _id = newDeviceToken();
      const now = new Date(clock.now());
      const provider = address && { ...address, since: now };
      const device = { _id, app, platform, registeredAt: now, lastActiveAt: now };
      const replaced = await withAddress(app, _id, address, () =>
        devices.insertOne({ ...device, ...(provider && { provider }) }),
      );
      return { token: _id, replaced };
    },

    /** Gives a device its provider's address, undefined to take it away. Returns the devices replaced by it. @throws AddressContested */
    async setAddress(
      app: string,
      token: string,
      address: ProviderAddress | undefined,
    ): Promise<string[]> {
      const since = new Date(clock.now());
      const update: UpdateFilter<DeviceDocument> =
        address === undefined
          ? { $unset: { provider: true } }
          : { $set: { provider: { ...address, since } }, $unset: { uninstalled: true } };
      return withAddress(app, token, address, () =>
        devices.updateOne({ _id: token, app, deletedAt: { $exists: false } }, update),
      );
    },
  };
}
