import type { Platform, ProviderAddress } from '@carillon/core/channels';
import { newClaimId, newDeviceToken } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import { bulkWriteErrors } from './bulk-write.ts';
import type { Clock } from './clock.ts';
import { firstWay } from './device-ways.ts';
import type { DeviceDocument, SubscriptionDocument, TopicDocument } from './documents.ts';
import { IS_HOLDER } from './former-devices.ts';
import { newDeviceEntries } from './notify-mark.ts';
import { CLEAR_MARK, insertMarked, SUBSCRIBING, subscriptionId } from './subscriptions.ts';
import { createTopicCounters } from './topic-counters.ts';

/** A device of another service, or of another installation. */
export interface ImportedDevice {
  /** The device's token in the source. If absent, the device gets a new one. */
  token?: string;
  platform: Platform;
  provider?: ProviderAddress & { since?: Date };
  /** SHA-256 of the auth key that the device has, hex. */
  authDigest?: string;
  uninstalled?: true;
  unsubscribed?: true;
  registeredAt?: Date;
  lastActiveAt?: Date;
  expiresAt?: Date;
}

/** A subscription of an imported device. */
export interface ImportedSubscription {
  topic: string;
  token: string;
  platform: Platform;
  since?: Date;
}

/** Result of importing a device; `token` is that of the stored device. */
export type ImportResult =
  | { kind: 'imported' | 'existing'; token: string }
  | { kind: 'other-app' | 'deleted' | 'address-taken' };

type StoredDevice = Pick<DeviceDocument, '_id' | 'app' | 'deletedAt' | 'provider'>;

const STORED_FIELDS = { app: 1, deletedAt: 1, 'provider.address': 1 } as const;

/** Imports devices and subscriptions by the thousand. Each call may be repeated: existing documents do not change. */
export function createImports(db: Db, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');
  const counters = createTopicCounters(db.collection<TopicDocument>('topics'));

  function toDocument(app: string, device: ImportedDevice): DeviceDocument {
    const { token, provider, registeredAt, lastActiveAt, ...fields } = device;
    const importedAt = new Date(clock.now());
    const registered = registeredAt ?? importedAt;
    return {
      _id: token ?? newDeviceToken(),
      app,
      ...fields,
      ...(provider && { provider: { ...provider, since: provider.since ?? registered } }),
      ...firstWay(provider),
      registeredAt: registered,
      lastActiveAt: lastActiveAt ?? registered,
      importedAt,
    };
  }

  /** Finds the devices that conflict with new ones: with the same token, or the same address in the app. */
  async function findPresent(app: string, wanted: readonly DeviceDocument[]) {
    const addresses = wanted.flatMap(({ provider }) => provider?.address ?? []);
    const lists = await Promise.all(
      [
        { _id: { $in: wanted.map(({ _id }) => _id) } },
        { app, 'provider.address': { $in: addresses }, ...IS_HOLDER },
      ].map((filter) =>
        devices
          .find<StoredDevice>(filter, { projection: STORED_FIELDS, batchSize: wanted.length + 1 })
          .toArray(),
      ),
    );
    const [byToken = [], byAddress = []] = lists;
    return {
      byToken: new Map(byToken.map((device) => [device._id, device])),
      byAddress: new Map(byAddress.map((device) => [device.provider?.address, device._id])),
    };
  }

  return {
    /**
     * Inserts devices durably and returns the result of each, in order. A device whose token, or without a token whose
     * provider address, is stored already counts as existing.
     *
     * @param reported webhooks to which each inserted device is reported
     */
    async importDevices(
      app: string,
      imported: readonly ImportedDevice[],
      reported: readonly string[] = [],
    ): Promise<ImportResult[]> {
      const now = new Date(clock.now());
      const documents = imported.map((device) => ({
        ...toDocument(app, device),
        ...(reported.length > 0 && { notify: newDeviceEntries(reported, now) }),
      }));
      const errors = await bulkWriteErrors(
        devices,
        documents.map((document) => ({ insertOne: { document } })),
      );
      for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
      const refused = documents.filter((_, index) => errors.has(index));
      const present = refused.length === 0 ? undefined : await findPresent(app, refused);
      return documents.map(({ _id, provider }, index): ImportResult => {
        if (present === undefined || !errors.has(index)) return { kind: 'imported', token: _id };
        const device = present.byToken.get(_id);
        if (device?.deletedAt !== undefined) return { kind: 'deleted' };
        if (device !== undefined)
          return device.app === app ? { kind: 'existing', token: _id } : { kind: 'other-app' };
        const holder = present.byAddress.get(provider?.address);
        const isSame = imported[index]?.token === undefined && holder !== undefined;
        return isSame ? { kind: 'existing', token: holder } : { kind: 'address-taken' };
      });
    },

    /** Subscribes devices durably; existing subscriptions stay. The caller has checked that the devices are the app's. */
    importSubscriptions: (app: string, imported: readonly ImportedSubscription[]): Promise<void> =>
      importSubscriptions(subscriptions, counters.add, app, imported),
  };
}

async function importSubscriptions(
  subscriptions: Collection<SubscriptionDocument>,
  addToCounters: ReturnType<typeof createTopicCounters>['add'],
  app: string,
  imported: readonly ImportedSubscription[],
): Promise<void> {
  const changeId = newClaimId();
  const byId = new Map(
    imported.map((entry) => [subscriptionId(app, entry.topic, entry.token), entry]),
  );
  // As in subscribe: a mark, the counters, and the mark is cleared.
  const added = await insertMarked(subscriptions, byId, changeId);
  const entries = added.flatMap((id) => byId.get(id) ?? []);
  await addToCounters(entries.map(({ topic, platform }) => ({ app, topic, platform, n: 1 })));
  if (added.length === 0) return;
  await subscriptions.updateMany(
    { _id: { $in: added }, by: changeId, pending: SUBSCRIBING },
    CLEAR_MARK,
  );
}
