import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { NotifyEntry } from '../src/documents.ts';
import type { ReportProgress } from '../src/outbox.ts';
import {
  deliver,
  insertPush,
  newTokens,
  RETENTION_MS,
  type Shape,
  type StoreUnderTest,
  startStore,
} from './store-under-test.ts';

const LEASE_MS = 60_000;
const WRITES = ['insert', 'update', 'remove'];

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database?.stop());

/** A statement as MongoDB's profiler records it. */
interface Statement {
  op: string;
  keysInserted?: number;
  command: object;
}

/** Returns the statements on pushes, batches and inboxes that a call sends. */
async function profile(call: () => Promise<unknown>): Promise<Statement[]> {
  const { db } = database;
  await db.command({ profile: 0 });
  await db
    .collection('system.profile')
    .drop()
    .catch(() => undefined);
  await db.command({ profile: 2 });
  await call();
  await db.command({ profile: 0 });
  return db
    .collection<Statement>('system.profile')
    .find({ ns: /\.(pushes|batches|inbox|devices|webhooks)$/ })
    .toArray();
}

const isWrite = ({ op, command }: Statement) => WRITES.includes(op) || 'findAndModify' in command;
const countKeys = (statements: readonly Statement[]) =>
  statements.reduce((sum, { keysInserted = 0 }) => sum + keysInserted, 0);

/** Runs a push from its insert to its end. */
async function runPush(shape: Shape, notify?: NotifyEntry[]): Promise<void> {
  const push = await insertPush(database, newTokens(4), { shape, ...(notify && { notify }) });
  await deliver(database.store, push, {}, { finish: shape === 'in the push' });
  await database.store.pushCompletion.completeIfDone(push.id, RETENTION_MS);
}

/** Claims the due work of a webhook and records it as reported. */
async function reportAll(webhook: string): Promise<void> {
  for (;;) {
    const reports = await database.store.outbox.claim(webhook, LEASE_MS);
    if (reports.length === 0) return;
    const progress = reports.map((report): ReportProgress => {
      const n = report.kind === 'devices' ? 0 : (report.document.work?.n ?? 0);
      return { report, reported: new Uint8Array(n).fill(1), finished: true, isComplete: true };
    });
    await database.store.outbox.record(progress, LEASE_MS);
  }
}

test.each<[Shape, number]>([
  ['in the push', 1],
  ['in two batches', 3],
])('a push %s', async (shape, documents) => {
  const without = await profile(() => runPush(shape));
  const updates = without.map(({ command }) => JSON.stringify({ ...command, projection: 0 }));
  expect(updates.filter((text) => text.includes('$notify'))).toEqual([]);
  const entries = [{ w: shape, r: true as const, v: 0 }];
  const marked = await profile(() => runPush(shape, entries));
  // The marks are part of the statements that are sent anyway.
  expect(marked.map(({ op }) => op)).toEqual(without.map(({ op }) => op));
  expect(countKeys(marked)).toBeGreaterThan(countKeys(without));
  const reporting = await profile(() => reportAll(shape));
  expect(reporting.filter(isWrite).length).toBeLessThanOrEqual(3 * documents);
});
