import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { isBatchId } from '../../packages/core/src/ids.ts';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { SUSPECTED_AFTER } from '../../packages/store/src/lapsed-claims.ts';
import {
  insertPush,
  newTokens,
  type StoreUnderTest,
  type TestPush,
} from '../../packages/store/test/store-under-test.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openStore, type TestStore } from '../support/open-store.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { startService } from '../support/operators/service-process.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 600_000;
/** Five claims that lapse, with room for a busy machine. */
const BESIDE_WITHIN_MS = 120_000;
const STEP_MS = 100;
/** A claim that lasts longer has a worker that failed or is blocked: all other batches take milliseconds. */
const STALLED_MS = 1_000;
const IS_OPEN = { state: 'open', 'work.state': 'ready' } as const;

let servers: DataServers;
let mongo: TestMongo;
let store: TestStore;
let producers: Producers;
let tables: Pick<StoreUnderTest, 'pushes' | 'batches' | 'inbox'>;
beforeAll(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  store = await openStore({ uri: servers.env.MONGODB_URI, appName: 'test' });
  producers = createProducers(servers.redis, () => undefined);
  const { db } = mongo;
  tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await mongo?.close();
  await servers?.stop();
});

/** Inserts an open push to devices that are offline. */
async function insertOpen(
  recipients: number,
  { data, lapsed }: { data?: string; lapsed?: number } = {},
): Promise<TestPush> {
  const push = await insertPush(tables, newTokens(recipients));
  const later = new Date(Date.now() + 3_600_000);
  const fields: object = {
    ...{ expiresAt: later, sendUntil: later },
    ...(data !== undefined && { data }),
    ...(lapsed && { 'work.lapsed': lapsed }),
  };
  await tables.pushes.updateOne({ _id: push.id }, { $set: fields });
  return push;
}

const startWorker = (failpoints: string) =>
  startService('delivery-worker', {
    ...{ ...servers.env, QUEUES: 'send,deliver-mqtt,finish' },
    ...(failpoints !== '' && { FAILPOINTS: failpoints }),
  });

/** Does the scheduler's part, without its pauses. */
async function enqueueDue(): Promise<void> {
  const due = await store.batchTable.findDue(1_000);
  await Promise.all(
    due.map((batch) => (isBatchId(batch.id) ? producers.deliver(batch) : producers.resend(batch))),
  );
}

const seenAt = new Map<string, number>();
/** Ends leases now instead of seconds later: of claims that are `ageMs` old. */
async function endLeases(ageMs: number): Promise<void> {
  const held = { ...IS_OPEN, 'work.claim': { $exists: true } };
  const found = await tables.pushes.find(held, { projection: { 'work.claim': 1 } }).toArray();
  const claims = found.flatMap(({ work }) => work?.claim ?? []);
  const now = performance.now();
  for (const claim of claims) seenAt.set(claim, seenAt.get(claim) ?? now);
  const stalled = claims.filter((claim) => now - (seenAt.get(claim) ?? now) >= ageMs);
  const end = [{ $set: { 'work.at': '$$NOW' } }];
  await tables.pushes.updateMany({ ...IS_OPEN, 'work.claim': { $in: stalled } }, end);
}

/** Runs a worker, and another one when it ends, until no batch is open. Returns how many have ended. */
async function run(failpoints: string): Promise<number> {
  let ends = 0;
  let worker = await startWorker(failpoints);
  try {
    while ((await tables.pushes.countDocuments(IS_OPEN)) > 0) {
      if (!worker.isRunning()) {
        ends += 1;
        await endLeases(0);
        worker = await startWorker(failpoints);
      }
      await endLeases(STALLED_MS);
      await enqueueDue();
      await sleep(STEP_MS);
    }
  } finally {
    worker.kill('SIGKILL');
    await worker.exited;
  }
  return ends;
}

const outcomesOf = async ({ id }: Pick<TestPush, 'id'>) =>
  (await store.deliveryStatus.statusOfPush(id))?.outcomes ?? {};

/** Returns the numbers of a push's failed recipients by reason. */
async function reasonsOf({ id }: TestPush): Promise<Record<string, number>> {
  const found = await tables.pushes.findOne({ _id: id }, { projection: { app: 1 } });
  const push = await store.pushOutcomes.find(found?.app ?? '', id);
  if (push === undefined) throw new Error(`there is no push ${id}`);
  return (await store.pushOutcomes.summarize(push)).reasons;
}

/** A token in the middle of a push's recipients. */
const middleOf = ({ tokens }: TestPush) => tokens[Math.floor(tokens.length * 0.6)] ?? '';

/** Inserts a push while another one is suspected, and waits until it is delivered. Returns the outcomes of the other then. */
async function deliverBeside({ id }: TestPush): Promise<Record<string, number>> {
  const suspected = { _id: id, 'work.lapsed': { $gte: SUSPECTED_AFTER } };
  const isSuspected = async () => (await tables.pushes.countDocuments(suspected)) > 0;
  await until(isSuspected, { timeoutMs: BESIDE_WITHIN_MS, what: 'a suspected push' });
  const push = await insertOpen(1);
  const isDelivered = async () => (await outcomesOf(push)).inbox === 1;
  await until(isDelivered, { timeoutMs: BESIDE_WITHIN_MS, what: 'a push beside it' });
  return outcomesOf({ id });
}

test(
  'a recipient that kills its workers fails; the other 999 and 500 pushes beside them do not',
  async () => {
    const push = await insertOpen(1_000);
    // They were in four killed processes before: the next one makes them suspected too.
    const neighbours = await Promise.all(
      Array.from({ length: 500 }, () => insertOpen(1, { lapsed: 4 })),
    );
    const ends = await run(`rows:kill@${middleOf(push)}`);
    expect(await outcomesOf(push)).toEqual({ inbox: 999, failed: 1 });
    expect(await reasonsOf(push)).toEqual({ 'worker-failed': 1 });
    expect(await tables.inbox.countDocuments({ push: push.id })).toBe(999);
    const ids = neighbours.map(({ id }) => id);
    expect(await tables.inbox.countDocuments({ push: { $in: ids } })).toBe(500);
    expect(ends).toBeGreaterThan(5);
    expect(ends).toBeLessThanOrEqual(30);
  },
  LIMIT_MS,
);

test(
  'ten kills for another reason fail no recipient',
  async () => {
    const pushes = await Promise.all([1, 40].map((recipients) => insertOpen(recipients)));
    for (let kill = 0; kill < 10; kill += 1) {
      const worker = await startWorker('rows:stop#1');
      const hasStopped = async () => {
        await enqueueDue();
        return isStopped(worker.pid);
      };
      const stopped = until(hasStopped, { timeoutMs: 60_000, what: 'a stopped worker' });
      await stopped.finally(() => worker.kill('SIGKILL'));
      await worker.exited;
      await endLeases(0);
    }
    await run('');
    expect(await Promise.all(pushes.map(outcomesOf))).toEqual([{ inbox: 1 }, { inbox: 40 }]);
  },
  LIMIT_MS,
);

test.each([
  ['throws', 'throw', 0],
  // Five make the batch suspected; six end at each of three recipients.
  ['kills its workers', 'kill', 23],
])(
  'a payload that %s fails for all its recipients, and for no other push; one that is sent meanwhile is delivered before',
  async (_, action, expectedEnds) => {
    const [poison, push] = await Promise.all([
      insertOpen(9, { data: '{"text":"unprocessable"}' }),
      insertOpen(9),
    ]);
    const [ends, meanwhile] = await Promise.all([
      run(`deliver:${action}@unprocessable`),
      deliverBeside(poison),
    ]);
    expect(meanwhile).toHaveProperty('pending');
    expect(ends).toBe(expectedEnds);
    expect(await outcomesOf(poison)).toEqual({ failed: 9 });
    expect(await outcomesOf(push)).toEqual({ inbox: 9 });
    expect(await reasonsOf(poison)).toEqual({ 'worker-failed': 9 });
    expect(await tables.inbox.countDocuments({ push: poison.id })).toBe(0);
  },
  LIMIT_MS,
);

test(
  'a recipient for which a rejection is not handled fails',
  async () => {
    const push = await insertOpen(3);
    expect(await run(`rows:reject@${middleOf(push)}`)).toBe(11);
    expect(await outcomesOf(push)).toEqual({ inbox: 2, failed: 1 });
  },
  LIMIT_MS,
);
