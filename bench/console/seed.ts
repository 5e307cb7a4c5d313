import { randomBytes } from 'node:crypto';
import { Binary, type Db } from 'mongodb';
import { batchId, newObjectId, pushIdFrom, toIdPrefix } from '../../packages/core/src/ids.ts';
import {
  countOutcomes,
  failureCode,
  failureMask,
  OUTCOMES,
} from '../../packages/core/src/outcomes.ts';
import {
  createBatchDocument,
  createEmbeddedBatch,
} from '../../packages/store/src/create-batches.ts';
import type {
  BatchDocument,
  PushDocument,
  SubscriptionDocument,
} from '../../packages/store/src/documents.ts';
import { migrate } from '../../packages/store/src/schema.ts';

const DAY_MS = 86_400_000;
const PER_INSERT = 5_000;
const RECIPIENTS_PER_BATCH = 1_000;
/** One of this many recipients has failed. */
const FAILED_SHARE = 50;
const TOPIC = 'news';
const REJECTED = failureCode('rejected-by-provider');

/** Numbers of the stored documents. */
export interface Seed {
  pushes: number;
  devices: number;
  /** Recipients of one further push. */
  recipients: number;
}

/** Ids of stored documents, for the addresses of pages. */
export interface Seeded {
  app: string;
  token: string;
  topic: string;
  /** A push to one device. */
  push: string;
  /** The push to many. */
  largePush: string;
  /** A push in the middle of the list. */
  middle: string;
}

/** Stores pushes of the last 30 days, devices, a topic, and one push to many, in the store's own form. */
export async function seed(db: Db, { pushes, devices, recipients }: Seed): Promise<Seeded> {
  const [account, app] = [newObjectId(), newObjectId()];
  const createdAt = new Date(Date.now() - 60 * DAY_MS);
  await insert(db, 'accounts', 1, () => ({ _id: account, name: 'bench', plan: 'pro', createdAt }));
  await insert(db, 'apps', 1, () => ({ _id: app, account, name: 'bench', createdAt }));
  await insert(db, 'devices', devices, (n) => toDevice(app, n));
  await insert(db, 'subscriptions', devices, (n) => toSubscription(app, n));
  const topic = { _id: `${app}:${TOPIC}`, n: { android: devices }, v: 1 };
  await insert(db, 'topics', 1, () => topic);
  const stepMs = (30 * DAY_MS) / pushes;
  const startMs = Date.now() - 30 * DAY_MS;
  const ids = Array.from({ length: pushes }, (_, n) => toPushId(startMs + n * stepMs));
  await insert(db, 'pushes', pushes, (n) => toPush(app, ids[n] ?? '', toToken(n % devices)));
  const largePush = await insertLargePush(db, app, recipients);
  // The indexes are built at once, which is faster than with each insert.
  await migrate(db);
  const [push = '', middle = ''] = [ids.at(-1), ids[Math.floor(pushes / 2)]];
  return {
    app,
    token: toToken((pushes - 1) % devices),
    topic: TOPIC,
    push,
    largePush,
    middle,
  };
}

async function insert(
  db: Db,
  name: string,
  count: number,
  create: (n: number) => object,
): Promise<void> {
  const collection = db.collection(name);
  for (let from = 0; from < count; from += PER_INSERT) {
    const length = Math.min(PER_INSERT, count - from);
    const documents = Array.from({ length }, (_, n) => create(from + n));
    await collection.insertMany(documents, { ordered: false, writeConcern: { w: 1, j: false } });
  }
}

function toToken(n: number): string {
  return n.toString(16).padStart(22, '0');
}

function toPushId(ms: number): string {
  return toIdPrefix(ms) + randomBytes(6).toString('hex');
}

function toDevice(app: string, n: number): object {
  const at = new Date();
  return { _id: toToken(n), app, platform: 'android', registeredAt: at, lastActiveAt: at };
}

function toSubscription(app: string, n: number): SubscriptionDocument {
  const token = toToken(n);
  return { _id: `${app}:${TOPIC}:${token}`, token, platform: 'android', since: new Date() };
}

function toPush(app: string, _id: string, token: string): PushDocument {
  const acceptedAt = new Date(Number.parseInt(_id.slice(0, 12), 16));
  const expiresAt = new Date(acceptedAt.getTime() + DAY_MS);
  const isFailed = Number.parseInt(_id.slice(-4), 16) % FAILED_SHARE === 0;
  const outcomes = Uint8Array.of(isFailed ? REJECTED : OUTCOMES.delivered);
  const counts = countOutcomes(outcomes);
  const { work, ...keys } = createEmbeddedBatch('mqtt', [token], 'closed', acceptedAt);
  return {
    ...{ _id, app, state: 'finished', acceptedAt, expiresAt, sendUntil: expiresAt },
    ...{ finishedAt: acceptedAt, data: '{"message":"Hello World!"}', devices: 1, counts },
    fan: { seq: 0, next: 0, done: true },
    work: { ...work, ...ended(outcomes, acceptedAt) },
    ...keys,
  };
}

/** Fields of a batch that has ended. */
function ended(outcomes: Uint8Array, at: Date) {
  const failures = failureMask(outcomes);
  return {
    ...{ outcomes: new Binary(outcomes), counts: countOutcomes(outcomes), closedAt: at, tries: 1 },
    final: true as const,
    ...(failures !== 0 && { failedAt: at, failures }),
  };
}

async function insertLargePush(db: Db, app: string, recipients: number): Promise<string> {
  const acceptedAt = new Date(Date.now() - 60_000);
  const _id = pushIdFrom(acceptedAt.getTime());
  const batches = Math.ceil(recipients / RECIPIENTS_PER_BATCH);
  const outcomes = Uint8Array.from({ length: RECIPIENTS_PER_BATCH }, (_, position) =>
    position % FAILED_SHARE === 0 ? REJECTED : OUTCOMES.delivered,
  );
  await insert(db, 'batches', batches, (n): BatchDocument => {
    const first = n * RECIPIENTS_PER_BATCH;
    const tokens = Array.from({ length: RECIPIENTS_PER_BATCH }, (_, of) => toToken(first + of));
    const batch = createBatchDocument({ _id, app }, 'mqtt', tokens, n, 'ready', acceptedAt);
    const work = { ...batch.work, state: 'closed' as const, ...ended(outcomes, acceptedAt) };
    return { ...batch, _id: batchId(_id, n), work };
  });
  const failed = (recipients / RECIPIENTS_PER_BATCH) * (RECIPIENTS_PER_BATCH / FAILED_SHARE);
  const push = { ...toPush(app, _id, ''), devices: recipients };
  const { work: _work, tokenHashes: _hashes, ...large } = push;
  const counts = { delivered: recipients - failed, failed };
  await insert(db, 'pushes', 1, () => ({
    ...large,
    counts,
    fan: { seq: batches, next: batches, done: true },
  }));
  return _id;
}
