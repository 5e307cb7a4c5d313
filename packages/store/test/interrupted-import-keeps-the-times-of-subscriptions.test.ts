import { Readable } from 'node:stream';
import { expect, test } from '@jest/globals';
import type { SubscriptionDocument } from '../src/documents.ts';
import { useStore } from './use-store.ts';

const APP = 'a'.repeat(24);
const SINCE = new Date('2024-05-01T00:00:00Z');
const HOUR_MS = 3_600_000;
const imported = [
  { topic: 'news', token: 'device1', platform: 'android', since: SINCE },
  { topic: 'news', token: 'device2', platform: 'android', since: SINCE },
] as const;

const database = useStore();

const subscriptions = () => database.db.collection<SubscriptionDocument>('subscriptions');

/** Makes all writes of topics fail, or none. */
async function setTopicsWritable(isWritable: boolean): Promise<void> {
  const validator = isWritable ? {} : { never: { $exists: true } };
  await database.db.command({ collMod: 'topics', validator });
}

test('between the insert and the counters', async () => {
  const { imports, topics } = database.store;
  await imports.importSubscriptions(APP, imported.slice(0, 1));
  await setTopicsWritable(false);
  await expect(imports.importSubscriptions(APP, imported)).rejects.toThrow();
  await setTopicsWritable(true);
  // The command is repeated while the interrupted change may still be in progress.
  await imports.importSubscriptions(APP, imported);
  expect(await topics.recountInterrupted(10)).toBe(0);
  // Later, the scheduler finds the interrupted change.
  await subscriptions().updateMany(
    { pending: { $exists: true } },
    { $set: { since: new Date(Date.now() - HOUR_MS) } },
  );
  expect(await topics.recountInterrupted(10)).toBe(1);
  expect(await Readable.from(topics.pages(APP)).toArray()).toEqual([
    [{ name: 'news', subscribers: 2 }],
  ]);
  const stored = await subscriptions().find({}).sort({ _id: 1 }).toArray();
  expect(stored).toEqual(
    imported.map(({ token, platform, since }) => ({
      ...{ _id: `${APP}:news:${token}`, token, platform, since },
    })),
  );
});
