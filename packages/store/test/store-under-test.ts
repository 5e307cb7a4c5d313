import { splitTokens } from '@carillon/core/batch';
import { newPushId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { type Collection, type Db, type Document, type Filter, MongoClient } from 'mongodb';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { startDatabase } from '../../../test/support/own-database.ts';
import { createBatchDocument, createEmbeddedBatch } from '../src/create-batches.ts';
import type {
  Batch,
  BatchDocument,
  InboxDocument,
  NotifyEntry,
  PushDocument,
} from '../src/documents.ts';
import { ensureIndexes } from '../src/migrate.ts';

export const LEASE_MS = 60_000;
export const RETENTION_MS = 3_600_000;
/** The app of the pushes that `insertPush` inserts. */
export const APP = 'a'.repeat(24);

/** A store on a database of its own, and the documents behind it. */
export interface StoreUnderTest {
  uri: string;
  db: Db;
  store: TestStore;
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
  /** Connects a further process; `stop` closes it. */
  connect(): Promise<TestStore>;
  /** Removes all documents and keeps the indexes, which take half a second to create. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

/** Creates a database with all indexes and connects a store to it. */
export async function startStore(): Promise<StoreUnderTest> {
  const { uri, stop } = await startDatabase();
  const client = await new MongoClient(uri).connect();
  const db = client.db();
  await ensureIndexes(db);
  const stores: TestStore[] = [];
  async function connect(): Promise<TestStore> {
    const store = await openStore({ uri, appName: 'test' });
    stores.push(store);
    return store;
  }
  return {
    uri,
    db,
    store: await connect(),
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
    connect,
    clear: () => clearDatabase(db),
    async stop() {
      await Promise.all(stores.map((store) => store.close()));
      await client.close();
      await stop();
    },
  };
}

async function clearDatabase(db: Db): Promise<void> {
  const collections = await db.listCollections({}, { nameOnly: true }).toArray();
  await Promise.all(
    collections.map(async ({ name }) => {
      // MongoDB's record of reads can only be dropped.
      if (name.startsWith('system.')) await db.collection(name).drop();
      else await db.collection(name).deleteMany();
    }),
  );
}

/** Where the recipients of a push are stored. */
export type Shape = 'in the push' | 'in two batches';
export const SHAPES: readonly Shape[] = ['in the push', 'in two batches'];

/** A push and its recipients. */
export interface TestPush {
  id: string;
  tokens: string[];
  /** Ids of its batches; the push itself if it holds its only batch. */
  batchIds: string[];
  collapse?: string;
}

let sequence = 0;

/** Returns device tokens that no other test uses. */
export function newTokens(count: number): string[] {
  sequence += 1;
  return Array.from({ length: count }, (_, n) => `device${sequence}n${String(n).padStart(4, '0')}`);
}

/** Inserts an open push whose batches are ready. */
export async function insertPush(
  { pushes, batches }: Pick<StoreUnderTest, 'pushes' | 'batches'>,
  tokens: readonly string[],
  {
    shape = 'in the push',
    collapse,
    notify,
  }: { shape?: Shape; collapse?: string; notify?: NotifyEntry[] } = {},
): Promise<TestPush> {
  sequence += 1;
  // Ids of one test sort in the order in which they were created.
  const _id = newPushId(Date.now() + sequence);
  const sorted = [...tokens].sort();
  const until = new Date(Date.now() + LEASE_MS);
  const push: PushDocument = {
    ...{ _id, app: APP, state: 'open', acceptedAt: new Date(), expiresAt: until, sendUntil: until },
    ...{ data: '{}', devices: tokens.length, fan: { seq: 0, next: 0, done: true } },
    ...(collapse !== undefined && { collapse }),
    ...(notify !== undefined && { notify }),
  };
  const made = { id: _id, tokens: sorted, ...(collapse !== undefined && { collapse }) };
  if (shape === 'in the push') {
    const batch = createEmbeddedBatch('mqtt', sorted, 'ready', new Date(0));
    await pushes.insertOne({ ...push, ...batch });
    return { ...made, batchIds: [_id] };
  }
  const half = Math.ceil(sorted.length / 2);
  const parts = [sorted.slice(0, half), sorted.slice(half)].filter((part) => part.length > 0);
  const documents = parts.map((part, n) =>
    createBatchDocument(push, 'mqtt', part, n, 'ready', new Date(0)),
  );
  await batches.insertMany(documents);
  await pushes.insertOne(push);
  return { ...made, batchIds: documents.map((document) => document._id) };
}

/** Delivers a push as a worker does: claim, inbox rows, settlement. `outcomes` holds a code for each token. */
export async function deliver(
  store: TestStore,
  push: TestPush,
  outcomes: Record<string, number>,
  { finish = false, lateReceipts = false } = {},
): Promise<void> {
  for (const id of push.batchIds) {
    const claimed = await store.batchTable.claim(id, 'reply', LEASE_MS);
    if (claimed === undefined) continue;
    const tokens = splitTokens(claimed.work.tokens);
    const codes = Uint8Array.from(tokens, (token) => outcomes[token] ?? OUTCOMES.delivered);
    const inInbox = tokens.filter((_, position) => codes[position] === OUTCOMES.inbox);
    const notify = claimed.notify && { notify: claimed.notify };
    await enqueue(store, push, inInbox, { id, tokens, ...notify });
    await store.batchTable.settle({
      ...{ id, claim: claimed.claim, outcomes: codes, lateReceipts },
      latenciesMs: new Uint32Array(tokens.length),
      ...notify,
      ...(finish && { finish: { purgeAt: store.pushCompletion.computePurgeAt(RETENTION_MS) } }),
    });
  }
}

/** Delivers a push whose recipients are all offline, except some. */
export async function deliverToInboxes(
  store: TestStore,
  push: TestPush,
  ...online: string[]
): Promise<void> {
  const offline = push.tokens.filter((token) => !online.includes(token));
  await deliver(store, push, Object.fromEntries(offline.map((token) => [token, OUTCOMES.inbox])));
}

async function enqueue(
  store: TestStore,
  { id: push, collapse }: TestPush,
  inInbox: readonly string[],
  batch: { id: string; tokens: readonly string[]; notify?: true },
): Promise<void> {
  const row = {
    ...{ push, work: batch.id, sent: true },
    ...(collapse !== undefined && { collapse }),
    ...(batch.notify && { notify: batch.notify }),
  };
  await store.inbox.enqueue(
    inInbox.map((token) => ({ ...row, token, position: batch.tokens.indexOf(token) })),
  );
}

/** Records the receipt of a device as its gateway does after the settlement. */
export async function acknowledge(
  { store, pushes, batches, inbox }: Pick<StoreUnderTest, 'store' | 'pushes' | 'batches' | 'inbox'>,
  push: TestPush,
  token: string,
): Promise<void> {
  for (const work of push.batchIds) {
    const holder = (await batches.findOne({ _id: work })) ?? (await pushes.findOne({ _id: work }));
    const position = splitTokens(holder?.work?.tokens ?? '').indexOf(token);
    const rowId = `${token}:${push.collapse === undefined ? push.id : `~${push.collapse}`}`;
    const row = await inbox.findOne({ _id: rowId });
    const notify = (row ?? holder)?.notify && { notify: true as const };
    if (position >= 0)
      await store.receipts.record([{ app: APP, rowId, push: push.id, work, position, ...notify }]);
  }
}

/** Moves the expiry of a push into the past. */
export async function expire(
  { pushes }: Pick<StoreUnderTest, 'pushes'>,
  { id }: TestPush,
): Promise<void> {
  const past = new Date(Date.now() - 1_000);
  await pushes.updateOne({ _id: id }, { $set: { expiresAt: past, sendUntil: past } });
}

export const markDeleted = ({ pushCompletion }: TestStore, { id }: TestPush) =>
  pushCompletion.markDeleted(APP, id);

/** Ends a push if it is delivered to all, expired or deleted. */
export const complete = ({ pushCompletion }: TestStore, { id }: TestPush) =>
  pushCompletion.completeIfDone(id, RETENTION_MS);

/** Reads a batch, wherever it is stored. */
export async function readBatch(
  { pushes, batches }: Pick<StoreUnderTest, 'pushes' | 'batches'>,
  id: string,
): Promise<Batch | undefined> {
  return ((await batches.findOne({ _id: id })) ?? (await pushes.findOne({ _id: id })))?.work;
}

/** Finds a push as the reports do. */
export async function findReported({ pushOutcomes }: TestStore, { id }: Pick<TestPush, 'id'>) {
  const push = await pushOutcomes.find(APP, id);
  if (push === undefined) throw new Error(`there is no push ${id}`);
  return push;
}

/** Returns MongoDB's record of the statements during a call that match a filter. */
export async function profile(
  { db }: Pick<StoreUnderTest, 'db'>,
  call: () => Promise<unknown>,
  filter: Filter<Document>,
): Promise<Document[]> {
  await db.command({ profile: 2 });
  try {
    await call();
  } finally {
    await db.command({ profile: 0 });
  }
  return db.collection('system.profile').find(filter).toArray();
}

/** Reads the state of each recipient, as `push outcomes --token` reports it. */
async function outcomesByToken(
  store: TestStore,
  { id, tokens }: TestPush,
): Promise<Record<string, string | undefined>> {
  const entries = tokens.map(async (token) => {
    const status = await store.deliveryStatus.statusOfRecipient(id, token);
    return [token, status?.outcome] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

/** Reads the outcome of each recipient, sorted by token, and the counts that `push outcomes` reports. */
export async function readOutcomes(
  store: TestStore,
  push: TestPush,
): Promise<{ outcomes: (string | undefined)[]; counts: Record<string, number> | undefined }> {
  const byToken = await outcomesByToken(store, push);
  const status = await store.deliveryStatus.statusOfPush(push.id);
  const outcomes = push.tokens.map((token) => byToken[token]);
  return { outcomes, counts: status?.outcomes };
}

/** Counts outcomes by name. */
export function countOutcomes(values: readonly (string | undefined)[]): Record<string, number> {
  const groups = Object.groupBy(values, (value) => value ?? 'unknown');
  return Object.fromEntries(
    Object.entries(groups).map(([name, some]) => [name, some?.length ?? 0]),
  );
}
