import { setTimeout as sleep } from 'node:timers/promises';
import { MongoClient } from 'mongodb';
import { isBatchId } from '../../../packages/core/src/ids.ts';
import { createProducers, type Producers } from '../../../packages/queue/src/producers.ts';
import { ensureIndexes } from '../../../packages/store/src/migrate.ts';
import {
  insertPush,
  newTokens,
  type StoreUnderTest,
  type TestPush,
} from '../../../packages/store/test/store-under-test.ts';
import { openStore, type TestStore } from '../open-store.ts';
import { startDataServers } from '../operators/data-servers.ts';
import { startService } from '../operators/service-process.ts';
import { isStopped } from '../stack/processes.ts';
import { until } from '../until.ts';

const STEP_MS = 100;
/** A claim that lasts longer has a worker that failed or is blocked: all other batches take milliseconds. */
const STALLED_MS = 1_000;
const IS_OPEN = { state: 'open', 'work.state': 'ready' } as const;

type Tables = Pick<StoreUnderTest, 'pushes' | 'batches' | 'inbox'>;

/** Delivery-workers that fail at failpoints, on servers of their own. */
export interface FailingWorkers extends Tables {
  /** Inserts an open push to devices that are offline. */
  insertPush(recipients: number, fields?: { data?: string; lapsed?: number }): Promise<TestPush>;
  /**
   * Runs a worker, and another one when it ends, until no batch is open.
   *
   * @param failpoints of each worker that is started
   * @returns how many have ended
   */
  run(failpoints: string): Promise<number>;
  /** Starts a worker, kills it when it has stopped itself at a failpoint, and does so again. */
  killInWork(times: number, failpoints: string): Promise<void>;
  /** Returns the numbers of a push's recipients by outcome. */
  outcomesOf(push: Pick<TestPush, 'id'>): Promise<Record<string, number>>;
  /** Gives the numbers of a push's failed recipients by reason. */
  reasonsOf(push: Pick<TestPush, 'id'>): Promise<Record<string, number>>;
  stop(): Promise<void>;
}

/** Starts the servers. The test does the scheduler's part, without its pauses. */
export async function openFailingWorkers(): Promise<FailingWorkers> {
  const servers = await startDataServers();
  const client = await new MongoClient(servers.env.MONGODB_URI).connect();
  const db = client.db();
  await ensureIndexes(db);
  const store = await openStore({ uri: servers.env.MONGODB_URI, appName: 'test' });
  const producers = createProducers(servers.redis, () => undefined);
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
  const countOpen = () => tables.pushes.countDocuments(IS_OPEN);
  const endLeases = createLeaseEnder(tables.pushes);

  const startWorker = (failpoints: string) =>
    startService('delivery-worker', {
      ...servers.env,
      QUEUES: 'send,deliver-mqtt,finish',
      ...(failpoints !== '' && { FAILPOINTS: failpoints }),
    });

  return {
    ...tables,
    insertPush: (recipients, fields) => insertOpenPush(tables, recipients, fields),
    async run(failpoints) {
      let ends = 0;
      let worker = await startWorker(failpoints);
      try {
        while ((await countOpen()) > 0) {
          if (!worker.isRunning()) {
            ends += 1;
            await endLeases(0);
            worker = await startWorker(failpoints);
          }
          await endLeases(STALLED_MS);
          await enqueueDue(store, producers);
          await sleep(STEP_MS);
        }
      } finally {
        worker.kill('SIGKILL');
        await worker.exited;
      }
      return ends;
    },
    async killInWork(times, failpoints) {
      for (let kill = 0; kill < times; kill += 1) {
        const worker = await startWorker(failpoints);
        const hasStopped = async () => {
          await enqueueDue(store, producers);
          return isStopped(worker.pid);
        };
        const stopped = until(hasStopped, { timeoutMs: 40_000, what: 'a stopped worker' });
        await stopped.finally(() => worker.kill('SIGKILL'));
        await worker.exited;
        await endLeases(0);
      }
    },
    async outcomesOf({ id }) {
      return (await store.deliveryStatus.statusOfPush(id))?.outcomes ?? {};
    },
    async reasonsOf({ id }) {
      const found = await tables.pushes.findOne({ _id: id }, { projection: { app: 1 } });
      const push = await store.pushOutcomes.find(found?.app ?? '', id);
      if (push === undefined) throw new Error(`there is no push ${id}`);
      return (await store.pushOutcomes.summarize(push)).reasons;
    },
    async stop() {
      await producers.close();
      await store.close();
      await client.close();
      await servers.stop();
    },
  };
}

async function insertOpenPush(
  tables: Tables,
  recipients: number,
  { data, lapsed }: { data?: string; lapsed?: number } = {},
): Promise<TestPush> {
  const push = await insertPush(tables, newTokens(recipients));
  const later = new Date(Date.now() + 3_600_000);
  const fields = {
    expiresAt: later,
    sendUntil: later,
    ...(data !== undefined && { data }),
    ...(lapsed && { 'work.lapsed': lapsed }),
  };
  await tables.pushes.updateOne({ _id: push.id }, { $set: fields as object });
  return push;
}

/** Creates the function that ends leases now instead of seconds later: of claims that are `ageMs` old. */
function createLeaseEnder(pushes: Tables['pushes']): (ageMs: number) => Promise<void> {
  const seenAt = new Map<string, number>();
  return async (ageMs) => {
    const held = await pushes
      .find({ ...IS_OPEN, 'work.claim': { $exists: true } }, { projection: { 'work.claim': 1 } })
      .toArray();
    const claims = held.flatMap(({ work }) => work?.claim ?? []);
    const now = performance.now();
    for (const claim of claims) seenAt.set(claim, seenAt.get(claim) ?? now);
    const stalled = claims.filter((claim) => now - (seenAt.get(claim) ?? now) >= ageMs);
    const end = [{ $set: { 'work.at': '$$NOW' } }];
    await pushes.updateMany({ ...IS_OPEN, 'work.claim': { $in: stalled } }, end);
  };
}

async function enqueueDue({ batchTable }: TestStore, producers: Producers): Promise<void> {
  const due = await batchTable.findDue(1_000);
  await Promise.all(
    due.map((batch) =>
      isBatchId(batch.id) ? producers.deliver(batch.id, 'mqtt') : producers.resend(batch),
    ),
  );
}
