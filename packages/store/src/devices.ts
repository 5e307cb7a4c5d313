import { createBatcher } from '@carillon/core/batcher';
import { sortInParts } from '@carillon/core/in-parts';
import { LIMITS } from '@carillon/core/limits';
import type { Collection, Db } from 'mongodb';
import type { Clock } from './clock.ts';
import { isUnexpired } from './device-deletion.ts';
import { createRegistration, type DeviceTables } from './device-registration.ts';
import { createDeviceWays, type Recipient } from './device-ways.ts';
import type { DeviceDocument } from './documents.ts';
import { IS_HOLDER, IS_NOT_FORMER } from './former-devices.ts';
import { IDLE_AT_CONNECT_MS } from './idle-devices.ts';
import type { KnownWebhooks } from './known-webhooks.ts';
import { LAST_SEEN_FIELDS, type LastSeen, parseLastSeen } from './last-seen.ts';
import { buildDeviceMark } from './notify-mark.ts';

/** The fields of a device that a connect needs. */
export type ConnectingDevice = Pick<
  DeviceDocument,
  | 'app'
  | 'platform'
  | 'way'
  | 'uninstalled'
  | 'deletedAt'
  | 'replacedBy'
  | 'authDigest'
  | 'expiresAt'
> & {
  /** It was not seen for so long that it may be pruned soon. */
  isIdle?: true;
};

const CONNECT_FIELDS = {
  app: 1,
  platform: 1,
  way: 1,
  uninstalled: 1,
  deletedAt: 1,
  replacedBy: 1,
  authDigest: 1,
  expiresAt: 1,
  lastActiveAt: 1,
} as const;

type FoundConnecting = Omit<ConnectingDevice, 'isIdle'> & Pick<DeviceDocument, 'lastActiveAt'>;

function toConnectingDevice(
  { lastActiveAt, ...device }: FoundConnecting,
  nowMs: number,
): ConnectingDevice | undefined {
  // Not by the filter: by `_id` alone MongoDB plans nothing.
  if (device.expiresAt && device.expiresAt.getTime() <= nowMs) return undefined;
  const isIdle = nowMs - lastActiveAt.getTime() >= IDLE_AT_CONNECT_MS;
  return isIdle ? { ...device, isIdle } : device;
}

/** Checks that a device may connect and call the API: it is there, and neither deleted nor a former one. */
export function hasCredentials(device: ConnectingDevice | undefined): device is ConnectingDevice {
  return device !== undefined && device.deletedAt === undefined && device.replacedBy === undefined;
}

/** What a device is as a recipient, without its token. */
const KIND = {
  platform: '$platform',
  way: '$way',
  isFormer: { $gt: ['$replacedBy', null] },
};

const FOUND_FIELDS = { app: 1, platform: 1, way: 1, replacedBy: 1, deletedAt: 1 } as const;

type FoundDevice = Pick<
  DeviceDocument,
  '_id' | 'app' | 'platform' | 'way' | 'replacedBy' | 'deletedAt'
>;

/** Devices of an app that are read at most to find one of a kind. */
const MAX_READ_FOR_ONE = 1_000;
/** Maximum queries in flight. */
const QUERIES_IN_FLIGHT = 4;

/** Beginning of the endpoints of Apple's push service. */
const APPLE_ENDPOINTS = 'https://web.push.apple.com/';
/** A device as a recipient, and of a former device its successor. */
export type FoundRecipient = Recipient & Pick<DeviceDocument, 'replacedBy'>;

/** A moment at which a device was seen. */
export interface Activity {
  token: string;
  /** Milliseconds since 1970, MongoDB's time. */
  at: number;
}

/** Address of a device at its provider, and whether the provider still accepts it. */
export type ReachableDevice = Pick<
  DeviceDocument,
  '_id' | 'platform' | 'provider' | 'uninstalled' | 'unsubscribed' | 'replacedBy' | 'lastActiveAt'
>;

const REACHABLE_FIELDS = {
  platform: 1,
  provider: 1,
  uninstalled: 1,
  unsubscribed: 1,
  replacedBy: 1,
  lastActiveAt: 1,
} as const;

/** A device whose address its provider reports as gone. */
export interface GoneDevice {
  token: string;
  address: string;
  flag: 'uninstalled' | 'unsubscribed';
  lastSeenAt?: Date;
}

/** Registered devices: registration, lookups, flags. */
export function createDevices(
  db: Db,
  clock: Clock,
  knownWebhooks: Pick<KnownWebhooks, 'listSubscribed'>,
) {
  const devices = db.collection<DeviceDocument>('devices');
  const tables = { devices, knownWebhooks };
  return {
    ...createRecipientLookups(devices, clock),
    ...createDeviceWays(devices),
    ...createDeviceReads(devices, clock),
    ...createRegistration(tables, clock),
    ...createFlags(tables, clock),
  };
}

type Devices = Collection<DeviceDocument>;

function toRecipient({ _id: token, platform, way, replacedBy }: FoundDevice): FoundRecipient {
  const fields = {
    ...(way !== undefined && { way }),
    ...(replacedBy !== undefined && { replacedBy, isFormer: true }),
  };
  return { token, platform, ...fields };
}

/** Lookups on the way of a push and of a connect; those of the same moment share a query. */
function createRecipientLookups(devices: Devices, clock: Clock) {
  const findByTokens = (tokens: string[], apps: string[]): Promise<FoundDevice[]> =>
    devices
      .find(
        // Of a single device the caller checks the app: by `_id` alone MongoDB reads a document without planning a query.
        tokens.length === 1
          ? { _id: tokens[0] ?? '' }
          : { _id: { $in: tokens }, app: { $in: apps } },
        // All in one batch of the cursor: the default of 101 would cost a second round trip.
        { projection: FOUND_FIELDS, batchSize: tokens.length + 1 },
      )
      .toArray();

  const findBatched = createBatcher<{ app: string; token: string }, FoundDevice | undefined>(
    'find-device',
    async (queries) => {
      const apps = [...new Set(queries.map((one) => one.app))];
      const tokens = queries.map((one) => one.token);
      const byToken = new Map((await findByTokens(tokens, apps)).map((one) => [one._id, one]));
      return queries.map(({ app, token }) => {
        const device = byToken.get(token);
        return device?.app === app ? device : undefined;
      });
    },
    { maxInFlight: QUERIES_IN_FLIGHT },
  );

  /**
   * The server groups by what decides the way: a thousand tokens in an array cost a third of a thousand documents. `$firstN`
   * gives the array that `$push` would: MongoDB runs `$push` in its slot-based engine, which takes a third more CPU for
   * this query.
   */
  async function findPage(app: string, tokens: readonly string[]): Promise<Recipient[]> {
    const all = { n: tokens.length, input: '$_id' };
    const groups = await devices
      .aggregate<{ _id: Omit<Recipient, 'token'>; tokens: string[] }>([
        { $match: { _id: { $in: tokens }, app, deletedAt: { $exists: false } } },
        { $group: { _id: KIND, tokens: { $firstN: all } } },
      ])
      .toArray();
    return groups.flatMap(({ _id: kind, tokens: tokensOfKind }) =>
      tokensOfKind.map((token) => ({ token, ...kind })),
    );
  }

  async function findRecipientsByToken(
    app: string,
    tokens: readonly string[],
    afterPage: () => void = () => undefined,
  ): Promise<Recipient[]> {
    // Of tokens that are neighbours in the index MongoDB reads one key each; of others it reads two.
    const sorted = await sortInParts(tokens);
    const found: Recipient[][] = [];
    // One at a time: several would occupy the processors of MongoDB, for which the queries of others wait.
    for (let from = 0; from < sorted.length; from += LIMITS.batchRecipients) {
      found.push(await findPage(app, sorted.slice(from, from + LIMITS.batchRecipients)));
      afterPage();
    }
    return found.flat();
  }

  const findForConnect = createBatcher<string, ConnectingDevice | undefined>(
    'find-connecting-device',
    async (tokens) => {
      const found = await devices
        .find<FoundConnecting & Pick<DeviceDocument, '_id'>>(
          { _id: { $in: tokens } },
          { projection: CONNECT_FIELDS, batchSize: tokens.length + 1 },
        )
        .toArray();
      const nowMs = clock.now();
      const byToken = new Map(
        found.map((device) => [device._id, toConnectingDevice(device, nowMs)]),
      );
      return tokens.map((token) => byToken.get(token));
    },
    { maxInFlight: 2 },
  );

  return {
    /** Finds one device of an app; undefined when it is absent, deleted or another app's. */
    async findRecipient(app: string, token: string): Promise<FoundRecipient | undefined> {
      const device = await findBatched({ app, token });
      return device === undefined || device.deletedAt !== undefined
        ? undefined
        : toRecipient(device);
    },
    /**
     * Finds the devices of an app among these tokens, in no order; absent, deleted and other apps' are left out.
     *
     * @param afterPage is called after each query; what it throws ends the search
     */
    findRecipients: findRecipientsByToken,
    /** Finds the fields that a connect needs; undefined when the device doesn't exist or has ended. */
    findForConnect,
  };
}

/** Reads of whole devices, and of what a delivery needs of many of them. */
function createDeviceReads(devices: Devices, clock: Clock) {
  return {
    /** Finds a device of any app with all its fields: the caller compares the app. */
    find: async (token: string) => (await devices.findOne({ _id: token })) ?? undefined,
    /** Finds the devices of these apps that a provider address belongs to: at most one in each. */
    findByAddress: (apps: readonly string[], address: string, limit: number) =>
      devices
        .find({ app: { $in: [...apps] }, 'provider.address': address, ...IS_HOLDER })
        .limit(limit)
        .toArray(),
    /** Returns the first of these apps, at most `limit`, that have a browser whose push service is Apple's. */
    async filterWithAppleBrowser(apps: readonly string[], limit: number): Promise<string[]> {
      const found: string[] = [];
      for (const app of apps) {
        if (found.length === limit) break;
        const browser = await devices.findOne(
          { app, 'provider.address': { $gte: APPLE_ENDPOINTS, $lt: `${APPLE_ENDPOINTS}~` } },
          { projection: { _id: 1 } },
        );
        if (browser !== null) found.push(app);
      }
      return found;
    },
    /** Returns the first of these apps, at most `limit`, that have an Android phone whose way is FCM. */
    async filterWithPhonesByFcm(apps: readonly string[], limit: number): Promise<string[]> {
      const found: string[] = [];
      for (const app of apps) {
        if (found.length === limit) break;
        // Some apps have iPhones alone that go by FCM: no more of them are read than the first.
        const [phone] = await devices
          .aggregate([
            { $match: { app, way: 'fcm' } },
            { $limit: MAX_READ_FOR_ONE },
            { $match: { platform: 'android' } },
            { $limit: 1 },
            { $project: { _id: 1 } },
          ])
          .toArray();
        if (phone !== undefined) found.push(app);
      }
      return found;
    },
    /** Finds when the devices of an app among these tokens were last seen, in no order. */
    async findLastSeen(app: string, tokens: readonly string[]): Promise<LastSeen[]> {
      const found = await devices
        .find<Buffer>(
          { _id: { $in: [...tokens] }, app, deletedAt: { $exists: false } },
          { projection: LAST_SEEN_FIELDS, batchSize: tokens.length + 1, raw: true },
        )
        .toArray();
      return found.map(parseLastSeen);
    },
    /**
     * Finds the provider addresses of the devices of an app among these tokens, in no order; deleted ones are left out, and
     * those that have ended.
     */
    findReachable: (app: string, tokens: readonly string[]): Promise<ReachableDevice[]> =>
      devices
        .find<ReachableDevice>(
          {
            ...{ _id: { $in: [...tokens] }, app, deletedAt: { $exists: false } },
            ...isUnexpired(clock.now()),
          },
          { projection: REACHABLE_FIELDS, batchSize: tokens.length + 1 },
        )
        .toArray(),
    /** Returns those of these tokens whose device is the app's and has an FCM token, each with its way. */
    async filterWithFcmToken(
      app: string,
      tokens: readonly string[],
    ): Promise<Pick<Recipient, 'token' | 'way'>[]> {
      const found = await devices
        .find(
          {
            _id: { $in: [...tokens] },
            app,
            deletedAt: { $exists: false },
            'provider.channel': 'fcm',
            uninstalled: { $ne: true },
          },
          { projection: { way: 1 }, batchSize: tokens.length + 1 },
        )
        .toArray();
      return found.map(({ _id: token, way }) => ({ token, ...(way !== undefined && { way }) }));
    },
    /** Lists an app's devices after the token `after`, in order of token, without former ones. */
    list: (app: string, after: string, limit: number) =>
      devices
        .find({ app, _id: { $gt: after }, deletedAt: { $exists: false }, ...IS_NOT_FORMER })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
  };
}

/** Writes the reports of providers and gateways about devices. */
function createFlags({ devices, knownWebhooks }: DeviceTables, clock: Clock) {
  const markSeen = createBatcher<string, void>('mark-seen', async (tokens) => {
    await devices.updateMany(
      { _id: { $in: tokens }, deletedAt: { $exists: false } },
      { $max: { lastActiveAt: new Date(clock.now()) } },
    );
    return tokens.map(() => undefined);
  });

  return {
    /** Records that a device is seen now, as by a request or by its provider; its way does not change. */
    markSeen,
    /**
     * Flags devices that a provider reports as gone, unless they have registered an address after the provider saw them
     * last (guarantee G16).
     */
    async flagGone(app: string, goneDevices: readonly GoneDevice[]): Promise<void> {
      if (goneDevices.length === 0) return;
      await devices.bulkWrite(
        goneDevices.map(({ token, address, flag, lastSeenAt }) => {
          const reported = knownWebhooks.listSubscribed(app, `device.${flag}`);
          const filter = {
            _id: token,
            'provider.address': address,
            'provider.since': { $lt: lastSeenAt ?? new Date(clock.now()) },
            // A device that is flagged already has no further event.
            ...(reported.length > 0 && { [flag]: { $ne: true } }),
          };
          const notify = buildDeviceMark(reported, flag);
          const flagged = { [flag]: true };
          const update =
            reported.length > 0 ? [{ $set: { ...flagged, notify } }] : { $set: flagged };
          return { updateOne: { filter, update } };
        }),
        { ordered: false },
      );
    },
    /**
     * Records when devices were last seen; an older time changes nothing. Devices of the same second share an update.
     */
    async touch(activities: readonly Activity[]): Promise<void> {
      const tokensAt = new Map<number, string[]>();
      for (const { token, at } of activities) {
        const second = Math.floor(at / 1_000) * 1_000;
        const tokens = tokensAt.get(second);
        if (tokens === undefined) tokensAt.set(second, [token]);
        else tokens.push(token);
      }
      if (tokensAt.size === 0) return;
      await devices.bulkWrite(
        [...tokensAt].map(([second, tokens]) => ({
          updateMany: {
            filter: { _id: { $in: tokens } },
            update: { $max: { lastActiveAt: new Date(second) } },
          },
        })),
        { ordered: false },
      );
    },
  };
}
