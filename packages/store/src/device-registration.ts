import { setTimeout as delay } from 'node:timers/promises';
import type { Platform, ProviderAddress } from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import { newDeviceToken } from '@carillon/core/ids';
import type { Collection, Document } from 'mongodb';
import type { Clock } from './clock.ts';
import { buildDeletion, isUnexpired } from './device-deletion.ts';
import { buildNextWay, firstWay } from './device-ways.ts';
import type { DeviceDocument } from './documents.ts';
import { buildReplacement, IS_FORMER, IS_HOLDER, IS_NOT_FORMER } from './former-devices.ts';
import type { KnownWebhooks } from './known-webhooks.ts';
import { isDuplicateKey } from './mongo-errors.ts';
import { newDeviceEntries } from './notify-mark.ts';

/** Maximum writes of a device with its provider address while others get the same one; all of twenty succeed. */
const MAX_ADDRESS_ATTEMPTS = 60;
/** Maximum delay before the device that has the address is looked up. */
const ADDRESS_RETRY_DELAY_MS = 10;

/** Thrown when other devices kept getting the same provider address at the same moment. */
export class AddressConflictError extends Error {}

/** Thrown when a device was deleted or replaced in the moment in which it got an address. */
export class DeletedDeviceError extends Error {}

export interface DeviceTables {
  devices: Collection<DeviceDocument>;
  knownWebhooks: Pick<KnownWebhooks, 'listSubscribed'>;
}

interface RegistrationOptions {
  /** The app uses FCM for Android: its Android devices can be reached as former ones. Default: false. */
  usesFcm?: boolean;
  /** Hash of the installation's own id. */
  deviceIdHash?: string | undefined;
  /** Time after which the device ends. Absent: a new device has no end, and another one keeps its own. */
  expiresInSeconds?: number | undefined;
}

interface AddressOptions extends Pick<RegistrationOptions, 'usesFcm'> {
  /** The kind of the device's APNs token stays as it is. Default: false. */
  keepsKind?: boolean;
}

/** Registration of devices, and of their addresses. */
export function createRegistration(tables: DeviceTables, clock: Clock) {
  const { devices, knownWebhooks } = tables;

  /** Updates a device that is there. @throws {AddressConflictError} {DeletedDeviceError} */
  function update(claim: AddressClaim, fields: Document): Promise<string[]> {
    const { app, token } = claim;
    const filter = {
      ...{ _id: token, app, deletedAt: { $exists: false }, ...IS_NOT_FORMER },
      ...isUnexpired(clock.now()),
    };
    return writeWithAddress(tables, claim, async () => {
      const { matchedCount } = await devices.updateOne(filter, [{ $set: fields }]);
      if (matchedCount === 0) throw new DeletedDeviceError();
    });
  }

  /** Builds the end of a device that registers; none if it names none. */
  function buildEnd(expiresInSeconds: number | undefined): Pick<DeviceDocument, 'expiresAt'> {
    if (expiresInSeconds === undefined) return {};
    return { expiresAt: new Date(clock.now() + expiresInSeconds * 1_000) };
  }

  return {
    /**
     * Registers a new device. Returns its token and the devices that had its address before: they are former devices now, or
     * deleted if nothing could reach them.
     *
     * @throws {AddressConflictError}
     */
    async register(
      app: string,
      platform: Platform,
      address?: ProviderAddress,
      { usesFcm = false, deviceIdHash, expiresInSeconds }: RegistrationOptions = {},
    ): Promise<{ token: string; replaced: string[] }> {
      const _id = newDeviceToken();
      const now = new Date(clock.now());
      const reported = knownWebhooks.listSubscribed(app, 'device.registered');
      const device = {
        ...{ _id, app, platform, registeredAt: now, lastActiveAt: now },
        ...(address && { provider: { ...address, since: now } }),
        ...firstWay(address),
        ...buildEnd(expiresInSeconds),
        ...(deviceIdHash !== undefined && { deviceIdHash }),
        ...(reported.length > 0 && { notify: newDeviceEntries(reported, now) }),
      };
      const claim = { app, usesFcm, token: _id, address: address?.address };
      const replaced = await writeWithAddress(tables, claim, (replaces) =>
        devices.insertOne({ ...device, ...(replaces !== undefined && { replaces }) }),
      );
      return { token: _id, replaced };
    },

    /**
     * Writes what an installation registers that has proved to be this device; what it does not name stays. Returns the tokens
     * of the devices that had its address before, as for a new one.
     *
     * @throws {AddressConflictError} {DeletedDeviceError}
     */
    renew(
      app: string,
      token: string,
      address: ProviderAddress | undefined,
      { usesFcm = false, deviceIdHash, expiresInSeconds }: RegistrationOptions = {},
    ): Promise<string[]> {
      const now = new Date(clock.now());
      return update(
        { app, usesFcm, token, address: address?.address },
        {
          lastActiveAt: { $max: ['$lastActiveAt', now] },
          ...(deviceIdHash !== undefined && { deviceIdHash: { $literal: deviceIdHash } }),
          ...buildEnd(expiresInSeconds),
          ...(address && buildAddress(address, now)),
        },
      );
    },

    /**
     * Sets a device's provider address; undefined removes it. Returns the tokens of the devices that had it before, as for a
     * new device.
     *
     * @throws {AddressConflictError} {DeletedDeviceError}
     */
    setAddress(
      app: string,
      token: string,
      address: ProviderAddress | undefined,
      { usesFcm = false, keepsKind = false }: AddressOptions = {},
    ): Promise<string[]> {
      const now = new Date(clock.now());
      const fields =
        address === undefined
          ? { provider: '$$REMOVE', way: buildNextWay(undefined) }
          : buildAddress(address, now, keepsKind && address.channel === 'apns');
      const seen = { lastActiveAt: { $max: ['$lastActiveAt', '$$NOW'] } };
      return update({ app, usesFcm, token, address: address?.address }, { ...seen, ...fields });
    },

    ...createProofs(devices, clock),
  };
}

/** Reads and writes for installations that prove to be a device. */
function createProofs(devices: Collection<DeviceDocument>, clock: Clock) {
  return {
    /**
     * Gives a former device its credentials back, because its installation has proved to be it: without an address, which
     * {@link renew} sets. Two devices are never former ones of each other.
     *
     * @returns false if it is no former device
     */
    async restore(app: string, token: string): Promise<boolean> {
      const { modifiedCount } = await devices.updateOne(
        {
          ...{ _id: token, app, deletedAt: { $exists: false }, ...IS_FORMER },
          ...isUnexpired(clock.now()),
        },
        {
          $unset: { replacedBy: true, replacedAt: true, leaving: true, provider: true, way: true },
        },
      );
      return modifiedCount === 1;
    },

    /** Finds the device of an app that an installation's own id belongs to: the newest one of its platform, former or not. */
    async findByDeviceId(
      app: string,
      platform: Platform,
      deviceIdHash: string,
    ): Promise<string | undefined> {
      const [found] = await devices
        .find({ app, deviceIdHash, platform }, { projection: { _id: 1 } })
        .sort({ registeredAt: -1 })
        .limit(1)
        .toArray();
      return found?._id;
    },
  };
}

/** Builds the fields of a device that gets an address: with it the device is neither uninstalled nor unsubscribed. */
function buildAddress(address: ProviderAddress, since: Date, keepsKind = false): Document {
  const provider = { $literal: { ...address, since } };
  return {
    // An object expression leaves out a field without a value.
    provider: keepsKind ? { $mergeObjects: [provider, { kind: '$provider.kind' }] } : provider,
    way: buildNextWay(address),
    uninstalled: '$$REMOVE',
    unsubscribed: '$$REMOVE',
  };
}

/** A device that gets a provider address. */
interface AddressClaim {
  app: string;
  usesFcm: boolean;
  token: string;
  address: string | undefined;
}

type Holder = Pick<DeviceDocument, '_id' | 'platform'> & Required<Pick<DeviceDocument, 'provider'>>;

/**
 * Writes a device with its provider address, which a unique index gives to one device of an app. While another device has it,
 * replaces that one and writes again: an installation that registers again without a proof is a new device. If the caller dies
 * in between, no device has the address until the installation repeats its request, or the scheduler gives it back.
 *
 * @param write gets the former device, if there is one
 * @returns the former and deleted devices. If the caller dies before it clears their subscriptions and inbox, the scheduler
 *   finds them by `leaving` (store/deleted-devices).
 * @throws {AddressConflictError}
 */
async function writeWithAddress(
  tables: DeviceTables,
  claim: AddressClaim,
  write: (replaces: string | undefined) => Promise<unknown>,
): Promise<string[]> {
  const { app, token, address } = claim;
  const replaced = new Set<string>();
  let replaces: string | undefined;
  const others = { _id: { $ne: token }, app, 'provider.address': address, ...IS_HOLDER };
  let holder: Holder | null = null;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await write(replaces);
      return [...replaced];
    } catch (error) {
      if (address === undefined || !isDuplicateKey(error)) throw error;
      if (attempt === MAX_ADDRESS_ATTEMPTS) throw new AddressConflictError();
    }
    // The holder was found before this attempt, which the device has reached undeleted: a rival that had taken the address from
    // the device since then would be another holder. So the device is there to take the address.
    const end = holder === null ? undefined : await replaceHolder(tables, claim, holder);
    if (holder !== null && end !== undefined) {
      replaced.add(holder._id);
      if (end === 'former') replaces ??= holder._id;
      holder = null;
      failpoint('address-released', token);
    } else {
      await delay(Math.random() * ADDRESS_RETRY_DELAY_MS);
      const projection = { provider: 1, platform: 1 };
      holder = await tables.devices.findOne<Holder>(others, { projection });
    }
  }
}

/**
 * Makes a device a former one if it still has its provider address, since the same time; deletes it if nothing could reach it
 * as a former one.
 *
 * @returns undefined if it does not have the address
 */
async function replaceHolder(
  { devices, knownWebhooks }: DeviceTables,
  { app, token, usesFcm }: AddressClaim,
  { _id, platform, provider }: Holder,
): Promise<'former' | 'deleted' | undefined> {
  const end = platform !== 'android' || usesFcm ? 'former' : 'deleted';
  const { modifiedCount } = await devices.updateOne(
    { _id, 'provider.address': provider.address, 'provider.since': provider.since, ...IS_HOLDER },
    end === 'former'
      ? buildReplacement(token)
      : buildDeletion(knownWebhooks.listSubscribed(app, 'device.deleted')),
  );
  return modifiedCount === 1 ? end : undefined;
}
