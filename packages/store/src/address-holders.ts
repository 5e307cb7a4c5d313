import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { failpoint } from '@carillon/core/failpoint';
import type { Collection, Db, Filter } from 'mongodb';
import { bulkWriteErrors } from './bulk-write.ts';
import { buildDeletion } from './device-deletion.ts';
import type { AddressDocument, DeviceDocument } from './documents.ts';
import { isDuplicateKey } from './mongo-errors.ts';
import type { Webhooks } from './webhooks.ts';

/** Of devices that get an address at once, one is written in each round; all of twenty are within two seconds. */
const MAX_ATTEMPTS = 24;
const RETRY_DELAY_MS = 10;
const MAX_RETRY_DELAY_MS = 100;
/** A younger entry may be of a device that is being written. */
const MIN_ENTRY_AGE_MS = 60_000;

/** Thrown when other devices kept claiming the same provider address at the same moment. */
export class AddressConflictError extends Error {}

/** A device that gets a provider address. */
export interface AddressClaim {
  app: string;
  token: string;
  address: string;
}

/*
 * A provider address belongs to one device of an app. A unique index would hold on each shard by itself, so each address has a
 * document of its own, whose id is the app and the address. It lists the devices that have the address, had it, or are about to
 * get it. Two writes, in this order:
 *
 * 1. A device is entered in the list.
 * 2. The device is written with the address. Then it reads the list.
 *
 * Of two devices that get the address at the same time, each has entered itself before it is written and reads the list
 * afterwards, so the later of the two sees the other: the one that has entered last stays. All processes decide by the order of
 * the list, so a device goes only for one that has entered after it, and of any number one stays. A process that dies in
 * between leaves an entry, which the next device with this address follows.
 */

/** The lists of the devices of provider addresses. */
export type AddressHolders = ReturnType<typeof createAddressHolders>;

/** Gives provider addresses to devices. */
export function createAddressHolders(db: Db, webhooks: Pick<Webhooks, 'listSubscribed'>) {
  const tables: Tables = {
    addresses: db.collection('addresses'),
    devices: db.collection('devices'),
    webhooks,
  };
  return {
    /**
     * Inserts a device with a provider address, and deletes the app's other devices that have it: an installation that
     * registers again is a new device. If the caller dies before it clears their subscriptions and inbox, the scheduler
     * finds them by `leaving` (store/deleted-devices).
     *
     * @returns the deleted devices; the device itself is among them if another one has entered later
     * @throws {AddressConflictError}
     */
    async insert(claim: AddressClaim, insert: () => Promise<unknown>): Promise<string[]> {
      const others = await enter(tables.addresses, claim);
      failpoint('address-entered', claim.token);
      const replaced = await deleteHolders(tables, claim, others);
      replaced.push(...(await writeDespiteIndex(tables, claim, insert)));
      replaced.push(...(await resolveRivals(tables, claim)));
      return [...new Set(replaced)];
    },

    /**
     * Gives a provider address to a device that is stored, as {@link insert} does. It may have been deleted itself: others are
     * deleted once it has the address, or when only a unique index refuses it.
     *
     * @param update throws if the device is deleted
     * @throws {AddressConflictError}
     */
    async update(claim: AddressClaim, update: () => Promise<unknown>): Promise<string[]> {
      const others = await enter(tables.addresses, claim);
      failpoint('address-entered', claim.token);
      const replaced = await writeDespiteIndex(tables, claim, update, others);
      replaced.push(...(await resolveRivals(tables, claim)));
      return [...new Set(replaced)];
    },

    /**
     * Enters devices that will be imported.
     *
     * @returns the addresses that another device has already, and that device
     */
    enterAll: (
      app: string,
      claims: readonly AddressClaim[],
      at: Date,
    ): Promise<Map<string, string>> => enterAll(tables, app, claims, at),

    /**
     * Finds imported devices whose address another one has got at the same moment, for the caller to remove. As in
     * {@link insert}, the one that has entered last stays.
     *
     * @returns their tokens, each with that of the device that stays
     */
    resolveImported: (app: string, claims: readonly AddressClaim[]): Promise<Map<string, string>> =>
      resolveImported(tables, app, claims),

    /**
     * Removes a device from the list of an address that it no longer has.
     *
     * @returns devices that were deleted because this one has got the address again in the same moment
     * @throws {AddressConflictError}
     */
    async leave(claim: AddressClaim): Promise<string[]> {
      const { app, token, address } = claim;
      const _id = addressId(app, address);
      const { addresses } = tables;
      const alone = { _id, 'holders.token': token, holders: { $size: 1 } };
      const { deletedCount } = await addresses.deleteOne(alone);
      if (deletedCount === 0) await addresses.updateOne({ _id }, { $pull: { holders: { token } } });
      return (await hasAddress(tables, claim)) ? resolveRivals(tables, claim) : [];
    },
  };
}

interface Tables {
  addresses: Collection<AddressDocument>;
  devices: Collection<DeviceDocument>;
  webhooks: Pick<Webhooks, 'listSubscribed'>;
}

/** Returns the id of an address's document; an address may have thousands of characters. */
function addressId(app: string, address: string): string {
  return `${app}:${createHash('sha256').update(address).digest('base64url')}`;
}

/** Enters a device in the list of an address; returns the others in it. */
async function enter(
  addresses: Collection<AddressDocument>,
  { app, token, address }: AddressClaim,
): Promise<string[]> {
  const others = {
    $filter: {
      input: { $ifNull: ['$holders', []] },
      as: 'one',
      cond: { $ne: ['$$one.token', { $literal: token }] },
    },
  };
  const own = { token: { $literal: token }, at: '$$NOW' };
  const update = [{ $set: { holders: { $concatArrays: [others, [own]] } } }];
  const filter = { _id: addressId(app, address) };
  for (;;) {
    try {
      const stored = await addresses.findOneAndUpdate(filter, update, {
        upsert: true,
        returnDocument: 'after',
      });
      return listOthers(stored, token);
    } catch (error) {
      // Two devices have inserted the document in the same moment.
      if (!isDuplicateKey(error)) throw error;
    }
  }
}

function listOthers(stored: AddressDocument | null, token: string): string[] {
  return (stored?.holders ?? []).flatMap((one) => (one.token === token ? [] : [one.token]));
}

/** Deletes those of these devices that have the address; returns them. */
async function deleteHolders(
  tables: Tables,
  { app, address }: Pick<AddressClaim, 'app' | 'address'>,
  tokens: readonly string[],
): Promise<string[]> {
  if (tokens.length === 0) return [];
  const filter = { _id: { $in: [...tokens] }, app, 'provider.address': address };
  const found = await tables.devices.find(filter, { projection: { _id: 1 } }).toArray();
  const holders = found.map(({ _id }) => _id);
  if (holders.length === 0) return [];
  return markDeleted(tables, app, { ...filter, _id: { $in: holders } }, holders);
}

/** Deletes those of these devices that match; returns those that are deleted now, by this process or another one. */
async function markDeleted(
  { devices, webhooks }: Tables,
  app: string,
  filter: Filter<DeviceDocument>,
  tokens: string[],
): Promise<string[]> {
  const reported = webhooks.listSubscribed(app, 'device.deleted');
  const deletion = buildDeletion(reported, ['provider']);
  const { matchedCount } = await devices.updateMany(filter, deletion);
  if (matchedCount === tokens.length) return tokens;
  // Subscriptions and inbox of one that has another address by now stay.
  const deleted = { _id: { $in: tokens }, deletedAt: { $exists: true } };
  const found = await devices.find(deleted, { projection: { _id: 1 } }).toArray();
  return found.map(({ _id }) => _id);
}

/**
 * Writes the device. The unique index of the previous release refuses it while another device has the address: one of the list
 * or, since that release, one that is in none. Such devices are deleted, and the write is repeated.
 */
async function writeDespiteIndex(
  tables: Tables,
  claim: AddressClaim,
  write: () => Promise<unknown>,
  listed: readonly string[] = [],
): Promise<string[]> {
  const replaced: string[] = [];
  for (let attempt = 1; ; attempt += 1) {
    try {
      await write();
      return replaced;
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      if (attempt === MAX_ATTEMPTS) throw new AddressConflictError();
      const deleted = await deleteHolders(tables, claim, listed);
      if (deleted.length === 0)
        deleted.push(...(await deleteHolders(tables, claim, await findOthers(tables, claim))));
      replaced.push(...deleted);
      await delay(Math.random() * Math.min(RETRY_DELAY_MS * (attempt - 1), MAX_RETRY_DELAY_MS));
    }
  }
}

/** Finds the other devices with the address, which may be in no list. */
async function findOthers(
  { devices }: Tables,
  { app, token, address }: AddressClaim,
): Promise<string[]> {
  const others = { app, 'provider.address': address, _id: { $ne: token } };
  const found = await devices.find(others, { projection: { _id: 1 } }).toArray();
  return found.map(({ _id }) => _id);
}

/**
 * Deletes all devices with the address but the one that has entered last; returns them. The one that stays is read once more
 * after the others: one of these may have deleted it before it was written itself, and a slow query reads its devices at
 * different moments.
 *
 * @throws {AddressConflictError}
 */
async function resolveRivals(tables: Tables, claim: AddressClaim): Promise<string[]> {
  const { app, token, address } = claim;
  const { addresses, devices } = tables;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const stored = await addresses.findOne({ _id: addressId(app, address) });
    if (stored === null || !stored.holders.some((one) => one.token === token)) {
      // Another process has removed it: the device did not have the address then, or has been deleted.
      if (!(await hasAddress(tables, claim))) return [];
      await enter(addresses, claim);
      continue;
    }
    const others = listOthers(stored, token);
    if (others.length === 0) return [];
    const rivals = await devices
      .find(
        { _id: { $in: [token, ...others] }, app, 'provider.address': address },
        { projection: { 'provider.since': 1 } },
      )
      .toArray();
    await forgetOld(addresses, stored, new Set(rivals.map(({ _id }) => _id)));
    const [last, ...losers] = sortByEntry(stored, rivals);
    if (last === undefined || losers.length === 0) return [];
    if (await hasAddress(tables, { app, token: last._id, address }))
      return deleteRivals(tables, claim, losers);
  }
  throw new AddressConflictError();
}

async function hasAddress(
  { devices }: Pick<Tables, 'devices'>,
  { app, token, address }: AddressClaim,
): Promise<boolean> {
  const holder = { _id: token, app, 'provider.address': address };
  return (await devices.findOne(holder, { projection: { _id: 1 } })) !== null;
}

type Rival = Pick<DeviceDocument, '_id' | 'provider'>;

/** Sorts devices of a list: first the one that has entered last, which keeps the address. */
function sortByEntry<R extends Rival>({ holders }: AddressDocument, rivals: readonly R[]): R[] {
  const places = new Map(holders.map(({ token }, index) => [token, index]));
  const placeOf = ({ _id }: Rival) => places.get(_id) ?? -1;
  return rivals.toSorted((a, b) => placeOf(b) - placeOf(a));
}

/** Deletes devices that have the address since the time that was read: one that gets it again has entered again. */
function deleteRivals(
  tables: Tables,
  { app, address }: Pick<AddressClaim, 'app' | 'address'>,
  rivals: readonly Rival[],
): Promise<string[]> {
  const unchanged = rivals.flatMap(({ _id, provider }) =>
    provider === undefined ? [] : [{ _id, 'provider.since': provider.since }],
  );
  const filter = { $or: unchanged, app, 'provider.address': address };
  return markDeleted(
    tables,
    app,
    filter,
    rivals.map(({ _id }) => _id),
  );
}

/** Removes the entries of devices without the address, unless they may be about to get it. */
async function forgetOld(
  addresses: Collection<AddressDocument>,
  { _id, holders }: AddressDocument,
  present: ReadonlySet<string>,
): Promise<void> {
  const newest = Math.max(...holders.map(({ at }) => at.getTime()));
  const old = holders.filter(
    ({ token, at }) => !present.has(token) && at.getTime() < newest - MIN_ENTRY_AGE_MS,
  );
  if (old.length === 0) return;
  const before = new Date(newest - MIN_ENTRY_AGE_MS);
  const tokens = { $in: old.map(({ token }) => token) };
  await addresses.updateOne(
    { _id },
    { $pull: { holders: { token: tokens, at: { $lt: before } } } },
  );
}

async function enterAll(
  tables: Tables,
  app: string,
  claims: readonly AddressClaim[],
  at: Date,
): Promise<Map<string, string>> {
  const { addresses } = tables;
  const errors = await bulkWriteErrors(
    addresses,
    claims.map(({ token, address }) => ({
      insertOne: { document: { _id: addressId(app, address), holders: [{ token, at }] } },
    })),
  );
  for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
  const known = claims.filter((_, index) => errors.has(index));
  const holders = new Map<string, string>();
  for (const [address, [first]] of await listHolders(tables, app, known))
    if (first !== undefined) holders.set(address, first._id);
  // The others are not imported, and need no entry.
  for (const claim of known) if (!holders.has(claim.address)) await enter(addresses, claim);
  return holders;
}

/**
 * Finds the devices that are listed for some addresses and have them, first the one that keeps it. Of a shorter list nothing is
 * read.
 */
async function listHolders(
  { addresses, devices }: Tables,
  app: string,
  claims: readonly AddressClaim[],
  minLength = 1,
): Promise<Map<string, Rival[]>> {
  const ids = claims.map(({ address }) => addressId(app, address));
  const lists = await addresses
    .find(
      { _id: { $in: ids }, [`holders.${minLength - 1}`]: { $exists: true } },
      { batchSize: ids.length + 1 },
    )
    .toArray();
  const tokens = lists.flatMap(({ holders }) => holders.map(({ token }) => token));
  if (tokens.length === 0) return new Map();
  const wanted = new Set(claims.map(({ address }) => address));
  const found = await devices
    .find(
      { _id: { $in: tokens }, app, 'provider.address': { $exists: true } },
      {
        projection: { 'provider.address': 1, 'provider.since': 1 },
        batchSize: tokens.length + 1,
        // An index on the address would read all devices of the app.
        hint: { _id: 1 },
      },
    )
    .toArray();
  const listById = new Map(lists.map((list) => [list._id, list]));
  const holders = new Map<string, Rival[]>();
  for (const [address, some] of Map.groupBy(found, ({ provider }) => provider?.address ?? '')) {
    const list = listById.get(addressId(app, address));
    if (wanted.has(address) && list !== undefined) holders.set(address, sortByEntry(list, some));
  }
  return holders;
}

async function resolveImported(
  tables: Tables,
  app: string,
  claims: readonly AddressClaim[],
): Promise<Map<string, string>> {
  const losers = new Map<string, string>();
  for (const [address, [winner, ...others]] of await listHolders(tables, app, claims, 2)) {
    if (winner === undefined) continue;
    const own = new Set(claims.flatMap((one) => (one.address === address ? one.token : [])));
    for (const { _id } of others) if (own.has(_id)) losers.set(_id, winner._id);
    const rivals = others.filter(({ _id }) => !own.has(_id));
    if (own.has(winner._id) && rivals.length > 0)
      await deleteRivals(tables, { app, address }, rivals);
  }
  return losers;
}
