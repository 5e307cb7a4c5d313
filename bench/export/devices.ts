import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Db } from 'mongodb';
import type { DeviceDocument } from '../../packages/store/src/documents.ts';

const DOCUMENTS_PER_INSERT = 10_000;
const DOCUMENTS_PER_READ = 1_000;
const DAY_SECONDS = 86_400;

/** A row or a document, with the key that its list is sorted by. */
interface Entry {
  key: string;
  text: string;
}

/** Stores devices of an app: a third has an address of FCM, a third of APNs. Times are whole seconds, as in exports. */
export async function storeDevices(db: Db, app: string, count: number): Promise<void> {
  const devices = db.collection<DeviceDocument>('devices');
  for (let from = 0; from < count; from += DOCUMENTS_PER_INSERT) {
    const length = Math.min(DOCUMENTS_PER_INSERT, count - from);
    const documents = Array.from({ length }, (_, n) => createDevice(app, from + n));
    await devices.insertMany(documents, { ordered: false, writeConcern: { w: 1, journal: false } });
  }
}

function createDevice(app: string, n: number): DeviceDocument {
  // The order of the tokens is not that of the inserts.
  const token = `${((n * 7_919) % 1_000_003).toString(16).padStart(6, '0')}${n.toString(16).padStart(16, '0')}`;
  const registeredAt = new Date((1_700_000_000 + (n % (365 * DAY_SECONDS))) * 1_000);
  const device = { _id: token, app, registeredAt, lastActiveAt: registeredAt };
  if (n % 3 === 0) return { ...device, platform: 'electron' };
  if (n % 3 === 1) {
    const address = `${token}:APA91b${'x'.repeat(134)}`;
    return {
      ...device,
      platform: 'android',
      provider: { channel: 'fcm', address, since: registeredAt },
    };
  }
  const address = token.padEnd(64, '0');
  return {
    ...device,
    platform: 'ios',
    provider: {
      channel: 'apns',
      address,
      environment: 'production',
      bundle: 'org.example.app',
      since: registeredAt,
    },
  };
}

/** Reads an app's devices with the driver alone, sorted by token: the floor of an export. */
export function readDevices(db: Db, app: string): AsyncIterable<DeviceDocument> {
  return db
    .collection<DeviceDocument>('devices')
    .find({ app, deletedAt: { $exists: false } }, { batchSize: DOCUMENTS_PER_READ })
    .sort({ _id: 1 });
}

/** Reads the devices as entries that can be compared independently of the order of their fields. */
export async function* readDeviceEntries(db: Db, app: string): AsyncGenerator<Entry> {
  for await (const { provider = {}, ...device } of readDevices(db, app)) {
    const fields = [...Object.entries(device), ...Object.entries(provider)].sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
    yield { key: device._id, text: JSON.stringify(fields) };
  }
}

/** Reads only the tokens. */
export async function* readTokens(db: Db, app: string): AsyncGenerator<Entry> {
  for await (const { _id } of readDevices(db, app)) yield { key: _id, text: '' };
}

/** Reads the tokens of an exported file of NDJSON in its order. */
export async function* readExportedTokens(file: string): AsyncGenerator<Entry> {
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const { token } = JSON.parse(line) as { token?: string };
    if (token !== undefined) yield { key: token, text: '' };
  }
}

/** Counts the entries that are only in one of two sorted lists, or differ. A duplicate counts as only in one of them. */
export async function countDifferences(
  expected: AsyncIterator<Entry>,
  actual: AsyncIterator<Entry>,
): Promise<number> {
  let differences = 0;
  let [left, right] = [await expected.next(), await actual.next()];
  while (left.done !== true || right.done !== true) {
    const order = compare(left.done ? undefined : left.value, right.done ? undefined : right.value);
    if (order !== 0 || left.value?.text !== right.value?.text) differences += 1;
    if (order <= 0) left = await expected.next();
    if (order >= 0) right = await actual.next();
  }
  return differences;
}

/** Compares two keys; a list that has ended sorts last. */
function compare(left: Entry | undefined, right: Entry | undefined): number {
  if (left === undefined || right === undefined) return left === undefined ? 1 : -1;
  if (left.key === right.key) return 0;
  return left.key < right.key ? -1 : 1;
}
