import { newDeviceToken } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { WEBHOOK_EVENTS } from '@carillon/core/webhooks';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { type CuttingProxy, startCuttingProxy } from '../../../test/support/cutting-proxy.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { type OwnDatabase, startDatabase } from '../../../test/support/own-database.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { deliver } from '../../store/test/store-under-test.ts';
import type { ReportProgress } from '../../webhooks/src/outbox.ts';
import { acceptPush } from '../src/accept-push.ts';
import { parsePush } from '../src/parse-push.ts';

const APP = 'a'.repeat(24);
const OTHER_APP = 'b'.repeat(24);
const LEASE_MS = 60_000;
const RETENTION_MS = 3_600_000;
/** More than one batch holds. */
const MANY = 1_001;
const SEALED = { key: 1, nonce: 'n', text: 't', tag: 'g', from: 'f' };

let database: OwnDatabase;
let proxy: CuttingProxy;
let redis: Awaited<ReturnType<typeof startRedis>>;
let client: MongoClient;
let store: TestStore;
let producers: Producers;
let tokens: string[];
beforeAll(async () => {
  [database, redis] = await Promise.all([startDatabase(), startRedis()]);
  client = await new MongoClient(database.uri).connect();
  const { port, pathname } = new URL(database.uri);
  proxy = await startCuttingProxy(Number(port));
  const uri = `mongodb://127.0.0.1:${proxy.port}${pathname}`;
  store = await openStore({ uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(redis, () => undefined);
  tokens = Array.from({ length: MANY }, newDeviceToken).sort();
  await store.imports.importDevices(
    APP,
    tokens.map((token) => ({ token, platform: 'android' })),
  );
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await proxy?.stop();
  await client?.close();
  await redis?.stop();
  await database?.stop();
});
afterEach(async () => {
  await client.db().collection('webhooks').deleteMany({});
  await store.knownWebhooks.refresh();
});

/** Adds a webhook for all events to an app and loads it into this process. */
async function createWebhook(app: string): Promise<string> {
  const _id = `webhook-of-${app}`;
  const webhook = { _id, app, address: SEALED, host: 'example.org', events: [...WEBHOOK_EVENTS] };
  await store.webhooks.create({ ...webhook, secret: SEALED });
  await store.knownWebhooks.refresh();
  return _id;
}

async function accept(to: readonly string[]): Promise<string> {
  const value = { to, data: { message: 'Hello World!' } };
  const request = await parsePush({ value, text: JSON.stringify(value) }, {}, store.clock.now());
  const { id } = await acceptPush(store, producers, APP, request);
  // The process's estimate of MongoDB's time may be ahead: nothing is claimed before the push is due.
  const isDue = { $expr: { $lte: ['$acceptedAt', '$$NOW'] } };
  await until(() =>
    client
      .db()
      .collection<{ _id: string }>('pushes')
      .findOne({ _id: id, ...isDue }),
  );
  return id;
}

/** Releases the batches of a push, as its fan-out does. Returns their ids. */
async function release(push: string): Promise<string[]> {
  const fanOut = await store.fanOuts.claim(push, LEASE_MS);
  const { released } = await store.batches.release(push, MANY);
  if (fanOut !== undefined) await store.fanOuts.endStep(fanOut, { done: true });
  return released.map(({ id }) => id);
}

const complete = (push: string) => store.pushCompletion.completeIfDone(push, RETENTION_MS);

async function pushToOne(): Promise<void> {
  const to = tokens.slice(0, 1);
  const id = await accept(to);
  await deliver(store, { id, tokens: to, batchIds: [id] }, {}, { finish: true });
  await complete(id);
}

async function pushToOneOffline(): Promise<void> {
  const [token = ''] = tokens;
  const id = await accept([token]);
  const push = { id, tokens: [token], batchIds: [id] };
  await deliver(store, push, { [token]: OUTCOMES.inbox });
  const [row] = await store.inbox.listRows(token);
  const notify = row?.notify && { notify: true as const };
  await store.receipts.record([
    { app: 'app', rowId: `${token}:${id}`, push: id, work: id, position: 0, ...notify },
  ]);
  await complete(id);
}

async function pushToMany(): Promise<void> {
  const id = await accept(tokens);
  await deliver(store, { id, tokens, batchIds: await release(id) }, {});
  await complete(id);
}

/** Reports everything to a webhook, as a worker does. */
async function reportAll(webhook: string): Promise<void> {
  // The times of entries are those of an estimate, which may be ahead.
  await until(async () => (await store.outbox.filterDue([webhook])).length > 0);
  for (;;) {
    const reports = await store.outbox.claim(webhook, LEASE_MS);
    if (reports.length === 0) return;
    const progress = reports.map((report): ReportProgress => {
      const n = report.kind === 'devices' ? 0 : (report.document.work?.n ?? 0);
      return { report, reported: new Uint8Array(n).fill(1), finished: true, isComplete: true };
    });
    await store.outbox.record(progress, LEASE_MS);
  }
}

/** Adds up the bytes of the documents of pushes. */
async function readStoredBytes(): Promise<number> {
  const sizes = ['pushes', 'batches', 'inbox'].map(async (name) => {
    const [sum] = await client
      .db()
      .collection(name)
      .aggregate<{ bytes: number }>([
        { $group: { _id: null, bytes: { $sum: { $bsonSize: '$$ROOT' } } } },
      ])
      .toArray();
    return sum?.bytes ?? 0;
  });
  return (await Promise.all(sizes)).reduce((sum, bytes) => sum + bytes, 0);
}

/** Measures what a push costs MongoDB. */
async function measure(run: () => Promise<void>) {
  for (const name of ['pushes', 'batches', 'inbox'])
    await client.db().collection(name).deleteMany({});
  proxy.cutAtWrite(0, 'before');
  const before = proxy.traffic();
  await run();
  const after = proxy.traffic();
  return {
    writes: proxy.writes(),
    statements: after.statements - before.statements,
    bytesIn: after.bytesIn - before.bytesIn,
    bytesOut: after.bytesOut - before.bytesOut,
    stored: await readStoredBytes(),
  };
}

test.each([
  ['to a device', pushToOne, 1],
  ['to a device that is offline', pushToOneOffline, 1],
  ['to 1,001 devices', pushToMany, 2],
])('a push %s', async (_, push, batches) => {
  const before = await measure(push);
  await createWebhook(OTHER_APP);
  expect(await measure(push)).toEqual(before);

  const webhook = await createWebhook(APP);
  const own = await measure(async () => {
    await push();
    await reportAll(webhook);
  });
  expect(own.stored).toBeGreaterThan(before.stored);
  expect(own.bytesIn).toBeGreaterThan(before.bytesIn);
  const added = own.writes - before.writes;
  expect(added).toBeGreaterThan(0);
  expect(added).toBeLessThanOrEqual(3 * batches);
});
