import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { DeviceDocument } from '../src/documents.ts';
import type { ImportedDevice, ImportTarget } from '../src/imports.ts';
import { useStore } from './use-store.ts';

const APP = 'a'.repeat(24);
const OTHER_APP = 'b'.repeat(24);
const RUNS = 200;
const SINCE = new Date(0);

const database = useStore();
const devices = () => database.db.collection<DeviceDocument>('devices');
const addressOf = (address: string) => ({ channel: 'fcm', address }) as const;

/** Few tokens and addresses, so that most lines conflict. */
const lines = fc.array(
  fc.record(
    {
      token: fc.constantFrom('A', 'B', 'C', 'foreign', 'deleted', 'former'),
      platform: fc.constant('android' as const),
      provider: fc.constantFrom(...['f1', 'f2', 'f3', 'held', 'foreign'].map(addressOf)),
    },
    { requiredKeys: ['platform'] },
  ),
  { minLength: 1, maxLength: 6 },
);

/** Restores the devices that are there before each import. */
async function restore(): Promise<void> {
  const fields = { platform: 'android', registeredAt: SINCE, lastActiveAt: SINCE } as const;
  const held = { ...addressOf('held'), since: SINCE };
  await devices().deleteMany({});
  await devices().insertMany([
    {
      ...fields,
      _id: 'foreign',
      app: OTHER_APP,
      provider: { ...addressOf('foreign'), since: SINCE },
    },
    { ...fields, _id: 'deleted', app: APP, deletedAt: SINCE },
    { ...fields, _id: 'holder', app: APP, provider: held },
    {
      ...{ ...fields, _id: 'former', app: APP, replacedBy: 'holder' },
      provider: { ...held, formerOf: 'former' },
    },
  ]);
}

/** Passes the calls to an import, or its check. @returns the kinds of the results, by call */
async function kindsOf(target: ImportTarget, calls: readonly ImportedDevice[][]) {
  const kinds: string[][] = [];
  for (const imported of calls)
    kinds.push((await target.importDevices(APP, imported)).map(({ kind }) => kind));
  return kinds;
}

test('for any lines with the same tokens and addresses, line by line', async () => {
  const calls = fc.array(lines, { minLength: 1, maxLength: 3 });
  const property = fc.asyncProperty(calls, async (imported) => {
    await restore();
    const checked = await kindsOf(database.store.imports.startCheck(), imported);
    expect(checked).toEqual(await kindsOf(database.store.imports, imported));
  });
  await fc.assert(property, { numRuns: RUNS });
});
