import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { fallbackBatchId, newPushId } from '../../packages/core/src/ids.ts';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import { processCounts } from '../../packages/core/src/process-counts.ts';
import { createBatch } from '../../packages/store/src/create-batches.ts';
import type { Batch, BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { ensureIndexes } from '../../packages/store/src/migrate.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { type OwnDatabase, startDatabase } from '../support/own-database.ts';

/** So many that some coincide in every order. */
const PUSHES = 150;
const RECIPIENTS = 6;
const RETENTION_MS = 3_600_000;
const EVERY_MS = 5;
const LATEST_MS = 12;

let database: OwnDatabase;
/** As many as there are processes that end pushes. */
let stores: TestStore[] = [];
let mongo: TestMongo;
beforeAll(async () => {
  // No stack: its workers must not claim these batches.
  database = await startDatabase();
  const { uri } = database;
  mongo = await openMongo({ mongodb: uri });
  await ensureIndexes(mongo.db);
  stores = await Promise.all([0, 1, 2].map(() => openStore({ uri, appName: 'test' })));
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  await mongo?.close();
  await database?.stop();
});

const tokens = Array.from({ length: RECIPIENTS }, (_, n) => `device${n}`);
const pushes = () => mongo.db.collection<PushDocument>('pushes');
const batches = () => mongo.db.collection<BatchDocument>('batches');

/** Work that is closed with an outcome for each recipient. */
function closedBatch(channel: Batch['channel'], code: (position: number) => number): Batch {
  const batch = createBatch(channel, tokens, 'ready', new Date());
  return { ...batch, state: 'closed', outcomes: new Binary(Uint8Array.from(tokens.keys(), code)) };
}

/** Expired pushes that are in the inbox of all of their devices; FCM has accepted them for half of the devices. */
async function insertExpiredPushes(): Promise<string[]> {
  const [acceptedAt, until] = [new Date(Date.now() - 60_000), new Date(Date.now() - 1_000)];
  const documents = Array.from({ length: PUSHES }, (): PushDocument => {
    const times = { acceptedAt, expiresAt: until, sendUntil: until };
    const fan = { seq: 0, next: 0, done: true };
    const batch = closedBatch('mqtt', () => OUTCOMES.inbox);
    const own = { _id: newPushId(Date.now()), app: 'app', data: '{}', devices: RECIPIENTS };
    return { ...own, state: 'open', ...times, fan, work: batch };
  });
  const ids = documents.map(({ _id }) => _id);
  const [from = '', to = ''] = [tokens.at(0), tokens.at(-1)];
  const taken = closedBatch('fcm', (position) => (position % 2 ? OUTCOMES.sent : OUTCOMES.gone));
  await pushes().insertMany(documents);
  await batches().insertMany(
    ids.map((push) => {
      const batch = { ...taken, fallback: true as const };
      return { _id: fallbackBatchId(push), push, app: 'app', from, to, work: batch };
    }),
  );
  for (const push of ids) {
    await stores[0]?.inbox.enqueue(
      tokens.map((token, position) => ({ token, push, work: push, position, sent: false })),
    );
  }
  return ids;
}

test('several processes that complete the same push count each recipient once, with its strongest outcome', async () => {
  const ids = await insertExpiredPushes();
  const countedBefore = { ...processCounts.recipients.get('mqtt') };
  // Each process comes a little later than the one before it, so that one counts while another removes.
  await Promise.all(
    ids.flatMap((id, index) =>
      stores.map(async (store, nth) => {
        await sleep(index * EVERY_MS + nth * (index % LATEST_MS));
        await store.pushCompletion.completeIfDone(id, RETENTION_MS);
      }),
    ),
  );
  const ended = await pushes()
    .find({ _id: { $in: ids } })
    .toArray();
  const seen = ended.map(({ state, counts, ending }) => ({ state, counts, ending }));
  const counts = { sent: RECIPIENTS / 2, expired: RECIPIENTS / 2 };
  expect(seen).toEqual(ids.map(() => ({ state: 'finished', counts, ending: undefined })));
  expect(await mongo.db.collection('inbox').countDocuments()).toBe(0);
  // The metrics add up what each process has counted; all of them are in this one.
  const counted = processCounts.recipients.get('mqtt');
  expect((counted?.sent ?? 0) - (countedBefore.sent ?? 0)).toBe(PUSHES * counts.sent);
  expect((counted?.expired ?? 0) - (countedBefore.expired ?? 0)).toBe(PUSHES * counts.expired);
});

test('a request during the completion of a push shows no outcome that the push does not have', async () => {
  const [store] = stores;
  const ids = await insertExpiredPushes();
  const seenOutcomes = new Set<string | undefined>();
  const sendRequest = async (id: string, token: string): Promise<boolean> => {
    const [push, recipient] = await Promise.all([
      store?.deliveryStatus.statusOfPush(id),
      store?.deliveryStatus.statusOfRecipient(id, token),
    ]);
    for (const outcome of Object.keys(push?.outcomes ?? {})) seenOutcomes.add(outcome);
    seenOutcomes.add(recipient?.outcome);
    return push?.state === 'finished' && push.outcomes.inbox === undefined;
  };
  for (const id of ids) {
    let isOver = false;
    const pendingRequest = tokens.map(async (token) => {
      while (!isOver) isOver = await sendRequest(id, token);
    });
    await Promise.all([...pendingRequest, store?.pushCompletion.completeIfDone(id, RETENTION_MS)]);
  }
  expect([...seenOutcomes].sort()).toEqual(['expired', 'inbox', 'sent']);
});
