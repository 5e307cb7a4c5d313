import type { Platform, ProviderAddress } from '@carillon/core/channels';
import { newClaimId, newDeviceToken } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import { bulkWriteErrors } from './bulk-write.ts';
import type { Clock } from './clock.ts';
import { firstWay } from './device-ways.ts';
import type { DeviceDocument, SubscriptionDocument, TopicDocument } from './documents.ts';
import { IS_HOLDER } from './former-devices.ts';
import { newDeviceEntries } from './notify-mark.ts';
import { createSeenTexts } from './seen-texts.ts';
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

/** Imports devices and subscriptions, or only checks what an import would do. */
export interface ImportTarget {
  /**
   * Inserts devices durably and returns the result of each, in order. A device whose token, or without a token whose
   * provider address, is stored already counts as existing.
   *
   * @param reported webhooks to which each inserted device is reported
   */
  importDevices(
    app: string,
    imported: readonly ImportedDevice[],
    reported?: readonly string[],
  ): Promise<ImportResult[]>;
  /** Subscribes devices durably; existing subscriptions stay. The caller has checked that the devices are the app's. */
  importSubscriptions(app: string, imported: readonly ImportedSubscription[]): Promise<void>;
}

type StoredDevice = Pick<DeviceDocument, '_id' | 'app' | 'deletedAt' | 'provider'>;

/** The devices with which imported ones may conflict. */
interface PresentDevices {
  find(token: string): Pick<StoredDevice, 'app' | 'deletedAt'> | undefined;
  /** Finds the token of the device of the app that a provider address belongs to. */
  findHolder(address: string | undefined): string | undefined;
}

const STORED_FIELDS = { app: 1, deletedAt: 1, 'provider.address': 1 } as const;

/** Imports devices and subscriptions by the thousand. Each call may be repeated: existing documents do not change. */
export function createImports(db: Db, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');
  const counters = createTopicCounters(db.collection<TopicDocument>('topics'));

  async function importDevices(
    app: string,
    imported: readonly ImportedDevice[],
    reported: readonly string[] = [],
  ): Promise<ImportResult[]> {
    const now = new Date(clock.now());
    const documents = imported.map((device) => ({
      ...toDocument(app, device, now),
      ...(reported.length > 0 && { notify: newDeviceEntries(reported, now) }),
    }));
    const errors = await bulkWriteErrors(
      devices,
      documents.map((document) => ({ insertOne: { document } })),
    );
    for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
    const refused = new Set(documents.filter((_, index) => errors.has(index)));
    const present = refused.size === 0 ? undefined : await findPresent(devices, app, [...refused]);
    return toResults(imported, documents, refused, present);
  }

  return {
    importDevices,
    importSubscriptions: (app, imported) =>
      importSubscriptions(subscriptions, counters.add, app, imported),
    /** Starts a check of an import: it returns the results that the import would have, and writes nothing. */
    startCheck: () => createImportCheck(devices, clock),
  } satisfies ImportTarget & { startCheck(): ImportTarget };
}

/**
 * Remembers each token and address that would be imported: about 200 bytes for a device. Like the import, it adds the new
 * devices of a call first, and then looks for the conflicts of the others.
 */
function createImportCheck(devices: Collection<DeviceDocument>, clock: Clock): ImportTarget {
  const tokens = createSeenTexts();
  const addresses = createSeenTexts();
  return {
    async importDevices(app, imported) {
      const now = new Date(clock.now());
      const documents = imported.map((device) => toDocument(app, device, now));
      const stored = await findPresent(devices, app, documents);
      const present: PresentDevices = {
        find: (token) => stored.find(token) ?? (tokens.has(token) ? { app } : undefined),
        findHolder: (address) =>
          stored.findHolder(address) ?? (addresses.has(address) ? 'a checked device' : undefined),
      };
      const refused = new Set<DeviceDocument>();
      for (const document of documents) {
        if (findConflict(document, true, present) !== undefined) {
          refused.add(document);
          continue;
        }
        tokens.add(document._id);
        if (document.provider !== undefined) addresses.add(document.provider.address);
      }
      return toResults(imported, documents, refused, present);
    },
    importSubscriptions: async () => {},
  };
}

/** Returns the result of each device, for the refused ones by what they conflict with after the others were inserted. */
function toResults(
  imported: readonly ImportedDevice[],
  documents: readonly DeviceDocument[],
  refused: ReadonlySet<DeviceDocument>,
  present: PresentDevices | undefined,
): ImportResult[] {
  return documents.map((document, index): ImportResult => {
    if (present === undefined || !refused.has(document))
      return { kind: 'imported', token: document._id };
    const hasToken = imported[index]?.token !== undefined;
    // Without a conflict, the other device has lost the address meanwhile.
    return findConflict(document, hasToken, present) ?? { kind: 'address-taken' };
  });
}

function toDocument(app: string, device: ImportedDevice, importedAt: Date): DeviceDocument {
  const { token, provider, registeredAt, lastActiveAt, ...fields } = device;
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
async function findPresent(
  devices: Collection<DeviceDocument>,
  app: string,
  wanted: readonly DeviceDocument[],
): Promise<PresentDevices> {
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
  const [found = [], holders = []] = lists;
  const byToken = new Map(found.map((device) => [device._id, device]));
  const byAddress = new Map(holders.map((device) => [device.provider?.address, device._id]));
  return {
    find: (token) => byToken.get(token),
    findHolder: (address) => byAddress.get(address),
  };
}

/** Returns the result of importing a device that conflicts with one that is present; undefined without a conflict. */
function findConflict(
  { _id, app, provider }: DeviceDocument,
  hasToken: boolean,
  present: PresentDevices,
): ImportResult | undefined {
  const device = present.find(_id);
  if (device?.deletedAt !== undefined) return { kind: 'deleted' };
  if (device !== undefined)
    return device.app === app ? { kind: 'existing', token: _id } : { kind: 'other-app' };
  const holder = present.findHolder(provider?.address);
  if (holder === undefined) return undefined;
  return hasToken ? { kind: 'address-taken' } : { kind: 'existing', token: holder };
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
