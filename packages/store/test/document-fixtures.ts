import { batchId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { Binary, type Db } from 'mongodb';
import type { TestStore } from '../../../test/support/open-store.ts';
import { createEmbeddedBatch } from '../src/create-batches.ts';
import type { Batch, BatchDocument, PushDocument } from '../src/documents.ts';

/* Documents for the cases of the store's functions, with the same ids each time. */
export const APP = 'a'.repeat(24);
export const ACCOUNT = 'b'.repeat(24);
export const PUSH = '0190000000000000000000aa';
export const NEWER_PUSH = '0190000000010000000000aa';
export const BATCH = batchId(PUSH, 0);
export const TOKENS = ['device1', 'device2', 'device3'];
const HOUR_MS = 3_600_000;

export function inAnHour(): Date {
  return new Date(Date.now() + HOUR_MS);
}

export function anHourAgo(): Date {
  return new Date(Date.now() - HOUR_MS);
}

/** Builds a due batch of three devices. */
export function embeddedBatch(fields: Partial<Batch> = {}): Batch {
  return { ...createEmbeddedBatch('mqtt', TOKENS, 'ready', anHourAgo()).work, ...fields };
}

/** Builds a closed batch whose recipients all have an inbox row. */
export function batchInInbox(): Batch {
  const outcomes = new Binary(new Uint8Array(TOKENS.length).fill(OUTCOMES.inbox));
  return embeddedBatch({ state: 'closed', outcomes });
}

/** Fields of a claim whose lease has not ended. */
export const CLAIM_FIELDS = { claim: 'claim1', reply: 'r:1', at: inAnHour(), tries: 1 };

export function push(fields: Partial<PushDocument> = {}): PushDocument {
  return {
    _id: PUSH,
    app: APP,
    state: 'open',
    acceptedAt: anHourAgo(),
    expiresAt: inAnHour(),
    sendUntil: inAnHour(),
    data: '{"a":1}',
    devices: TOKENS.length,
    fan: { seq: 0, next: 0, done: true },
    ...fields,
  };
}

export function batch(fields: Partial<BatchDocument> = {}): BatchDocument {
  const [from = '', to = ''] = [TOKENS.at(0), TOKENS.at(-1)];
  return { _id: BATCH, push: PUSH, app: APP, from, to, work: embeddedBatch(), ...fields };
}

/** Builds an inbox row for each device; `holderId` is the id of the batch or push that holds the recipients. */
export function rows(holderId: string, collapse?: string) {
  return TOKENS.map((token, position) => ({
    token,
    push: PUSH,
    work: holderId,
    position,
    sent: false,
    ...(collapse !== undefined && { collapse }),
  }));
}

/** Inserts documents without the store. */
export async function insertDocuments(
  db: Db,
  collection: string,
  ...documents: object[]
): Promise<void> {
  await db.collection(collection).insertMany(documents);
}

/** Creates the unique indexes of keys and addresses, without which a second one is not refused. */
export async function createUniqueIndexes(db: Db): Promise<void> {
  for (const [collection, field, ...others] of [
    ['pushes', 'idempotency.key'],
    ['devices', 'provider.address', 'provider.formerOf'],
  ] as const) {
    const partialFilterExpression = { [field]: { $exists: true } };
    const options = { unique: true, partialFilterExpression };
    const fields = ['app', field, ...others].map((name) => [name, 1] as const);
    await db.collection(collection).createIndex(Object.fromEntries(fields), options);
  }
}

/** Builds the documents of the inbox rows of a push. */
export const inboxRows = (holderId: string, collapse?: string) =>
  rows(holderId, collapse).map(({ token, collapse: hash, ...row }) => {
    return { _id: hash === undefined ? `${token}:${PUSH}` : `${token}:~${hash}`, ...row };
  });

/** One call of a function of the store. */
export type Call = (store: TestStore) => unknown;

/** A call, and the documents that it needs; `db` is not the store's own connection. */
export interface Case {
  given: (db: Db) => Promise<unknown>;
  call: Call;
}

/** A case of each function, or several that send different statements, each by its name. */
export type Cases = Record<string, Call | Case | Record<string, Call | Case>>;

/** A call on a database with documents. */
export const after = (given: Case['given'], call: Call): Case => ({ given, call });

/** A call on documents of some collections. @param createIndexes creates indexes before the documents */
export function on(
  documents: Record<string, object | object[]>,
  call: Call,
  createIndexes = async (_: Db): Promise<unknown> => undefined,
): Case {
  const given = async (db: Db) => {
    await createIndexes(db);
    for (const [collection, some] of Object.entries(documents))
      await insertDocuments(db, collection, ...[some].flat());
  };
  return { given, call };
}
