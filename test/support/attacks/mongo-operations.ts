import type { TestMongo } from '../mongo.ts';

/** An operation of the API as MongoDB's profiler has it. */
interface ProfiledOperation {
  ns: string;
  op: string;
  docsExamined?: number;
}

/**
 * Has MongoDB record the operations of the API during a task. Returns each operation as `op collection`,
 * sorted, and how many documents were examined for all of them.
 */
export async function apiOperationsDuring(
  { db }: TestMongo,
  task: () => Promise<unknown>,
): Promise<{ operations: string[]; documents: number }> {
  await db.command({ profile: 0 });
  await db.collection('system.profile').drop();
  await db.command({ profile: 2 });
  try {
    await task();
  } finally {
    await db.command({ profile: 0 });
  }
  const found = await db
    .collection<ProfiledOperation>('system.profile')
    // Accounts and webhooks are read every 3 s besides, for no request.
    .find({ appName: 'carillon-api', ns: { $not: /(?:system\.profile|accounts|webhooks)$/ } })
    .toArray();
  const name = ({ ns, op }: ProfiledOperation) => `${op} ${ns.slice(db.databaseName.length + 1)}`;
  return {
    operations: found.map(name).sort(),
    documents: found.reduce((sum, { docsExamined = 0 }) => sum + docsExamined, 0),
  };
}
