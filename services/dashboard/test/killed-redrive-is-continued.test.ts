import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { newPushId } from '@carillon/core/ids';
import { failureCode, failureMask } from '@carillon/core/outcomes';
import { createBatch } from '@carillon/store/create-batches';
import type { PushDocument } from '@carillon/store/documents';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';

const APP = 'a'.repeat(24);
const REJECTED = failureCode('rejected-by-provider');
const SHORT_LEASE_MS = 500;
const MANY = 10_000;
const PROGRAM = fileURLToPath(new URL('redriving-process.ts', import.meta.url));

let database: StoreUnderTest;
let redis: Awaited<ReturnType<typeof startRedis>>;
beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
});
afterAll(async () => {
  await redis?.stop();
  await database?.stop();
});

/** Inserts failed pushes to a device of their own each. */
async function insertMany(count: number): Promise<string[]> {
  const tokens = Array.from({ length: count }, (_, n) => `device${n}`);
  const at = new Date();
  await database.db.collection<{ _id: string }>('devices').insertMany(
    tokens.map((_id) => ({
      ...{ _id, app: APP, platform: 'android', registeredAt: at, lastActiveAt: at },
    })),
  );
  const until = new Date(Date.now() + 3_600_000);
  const failedAt = new Date();
  const outcomes = new Binary(Uint8Array.of(REJECTED));
  const pushes = tokens.map((token): PushDocument => {
    const work = createBatch('mqtt', [token], 'ready', failedAt);
    return {
      ...{ _id: newPushId(failedAt.getTime()), app: APP, state: 'finished', acceptedAt: failedAt },
      ...{ expiresAt: until, sendUntil: until, data: '{}', devices: 1 },
      fan: { seq: 0, next: 0, done: true },
      work: {
        ...work,
        ...{ state: 'closed', outcomes, failedAt, failures: failureMask(Uint8Array.of(REJECTED)) },
      },
    };
  });
  await database.pushes.insertMany(pushes);
  return pushes.map(({ _id }) => _id);
}

function startProcess(): ChildProcess {
  const { uri } = database;
  return spawn(process.execPath, [PROGRAM, uri, redis.url, `${SHORT_LEASE_MS}`], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
}

test('each of 10,000 pushes is re-driven once when the process is killed in the middle', async () => {
  const ids = await insertMany(MANY);
  const id = (await database.store.redrives.create(APP, {})) ?? '';
  for (const share of [0.2, 0.5]) {
    const child = startProcess();
    const exited = once(child, 'exit');
    await until(async () => ((await database.store.redrives.find(id))?.done ?? 0) > MANY * share, {
      what: 'a part of the re-drive is done',
      timeoutMs: 120_000,
    });
    child.kill('SIGKILL');
    await exited;
    expect((await database.store.redrives.find(id))?.state).toBe('running');
  }
  const last = startProcess();
  const isOver = async () => (await database.store.redrives.find(id))?.state !== 'running';
  await until(isOver, { what: 'the re-drive has ended', timeoutMs: 120_000 });
  last.kill('SIGKILL');
  expect(await database.store.redrives.find(id)).toMatchObject({
    ...{ state: 'finished', total: MANY, done: MANY, recipients: MANY, skipped: {} },
  });
  const added = await database.pushes.find({ 'idempotency.key': /^redrive:/ }).toArray();
  expect(added).toHaveLength(MANY);
  expect(new Set(added.map(({ idempotency }) => idempotency?.key.split(':')[2]))).toEqual(
    new Set(ids),
  );
  expect(new Set(added.map(({ work }) => work?.tokens)).size).toBe(MANY);
}, 400_000);
