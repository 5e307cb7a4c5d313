import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmdirSync, rmSync, writeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { createMongodProcess } from '../support/faults/mongod-process.ts';
import { createRedisServer } from '../support/faults/redis-server.ts';
import {
  expectWholeOrAbsent,
  type SteadyLoad,
  type SteadyPush,
  sendDuring,
} from '../support/faults/steady-pushes.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 10, perPush: 3 };
const DEVICES = 12;
const PUSHES = 30;
/** Takes longer than a loop may be blocked before its process is unready; the lease of a gateway ends before. */
const PUSHES_WHILE_FULL = 300;
const CHUNK_BYTES = 65_536;
const DOCUMENT_BYTES = 1_048_576;
/** Guarantee G15. */
const RESPONSE_WITHIN_MS = 3_000;
const CHANGED = { timeoutMs: 60_000 };
const LIMIT_MS = 360_000;

const releases: (() => unknown)[] = [];
afterEach(async () => {
  for (const release of releases.splice(0).reverse()) await release();
}, LIMIT_MS);

/** Mounts a file system in memory that can be filled. Only root may do so (test/support/jest/left-out.mjs). */
function mountSmallDisk(size: string) {
  const path = mkdtempSync(join(tmpdir(), 'carillon-disk-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size}`, 'tmpfs', path]);
  releases.push(() => {
    execFileSync('umount', [path]);
    rmdirSync(path);
  });
  const filler = join(path, 'filler');
  return {
    path,
    /** Leaves no byte free, also of what was freed since the last call. */
    fill() {
      const file = openSync(filler, 'a');
      try {
        for (const chunk = Buffer.alloc(CHUNK_BYTES); ; ) writeSync(file, chunk);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      } finally {
        closeSync(file);
      }
    },
    free: () => rmSync(filler, { force: true }),
  };
}

/** Opens a stack, and expects that no process turns unready or ends under load and a fault, and no accepted push is lost. */
async function sendThrough(
  label: string,
  env: Record<string, string>,
  fault: (fixture: Fixture, load: SteadyLoad) => Promise<void>,
): Promise<readonly SteadyPush[]> {
  const fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  releases.push(fixture.close);
  const { stack, pool } = fixture;
  let sent: readonly SteadyPush[] = [];
  const unready = await listUnreadyDuring(stack.dev.processes, async () => {
    sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await fault(fixture, load);
      await load.untilAccepted(PUSHES);
    });
    await expectWholeOrAbsent(label, fixture, sent);
  });
  expect(unready).toEqual([]);
  expect(stack.output()).not.toMatch(/ ended \(/);
  return sent;
}

test(
  'of MongoDB: pushes get 5xx in time; once there is space all accepted ones arrive',
  async () => {
    const disk = mountSmallDisk('640m');
    const dbPath = join(disk.path, 'db');
    await mkdir(dbPath);
    const mongod = await createMongodProcess(dbPath);
    await mongod.start();
    releases.push(mongod.kill);
    const lags = createLagRecord();
    const env = { MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon` };
    const sent = await sendThrough('full disk of MongoDB', env, async ({ mongo }, load) => {
      // It has reserved some room for its journal.
      for (let isFull = false; !isFull; ) {
        disk.fill();
        const document = { bytes: new Binary(randomBytes(DOCUMENT_BYTES)) };
        const options = { writeConcern: { w: 1, journal: true } };
        isFull = await mongo.db
          .collection('filler')
          .insertOne(document, options)
          .then(
            () => false,
            () => true,
          );
      }
      const failed = load.untilFailed(PUSHES);
      await lags.during(failed);
      disk.free();
      // MongoDB ends when it can't write its journal; its supervisor starts it again.
      if (!mongod.isRunning()) await mongod.start();
    });
    const failed = sent.flatMap((one) => (one.isAccepted ? [] : [one]));
    // Each has a status only if its body was JSON.
    expect(failed.filter(({ status }) => status === undefined)).toEqual([]);
    const slowestMs = Math.max(...failed.map(({ tookMs }) => tookMs));
    expect(slowestMs).toBeLessThanOrEqual(RESPONSE_WITHIN_MS + 3 * lags.maxMs());
  },
  LIMIT_MS,
);

test(
  'of Redis, whose log has no space: all pushes are accepted, and arrive',
  async () => {
    const disk = mountSmallDisk('32m');
    const server = await createRedisServer({ parent: disk.path });
    releases.push(server.remove);
    await server.start();
    const redis = await openRedis({ redis: server.url });
    releases.push(() => redis.disconnect());
    const takesWrites = () =>
      redis.set('test', 'x').then(
        () => true,
        () => false,
      );
    const env = { REDIS_URL: server.url };
    const sent = await sendThrough('full disk of Redis', env, async (_, load) => {
      disk.fill();
      await until(async () => !(await takesWrites()), { ...CHANGED, what: 'a Redis that is full' });
      await load.untilAccepted(PUSHES_WHILE_FULL);
      expect(await takesWrites()).toBe(false);
      disk.free();
      await until(takesWrites, { ...CHANGED, what: 'a Redis that accepts writes' });
    });
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  },
  LIMIT_MS,
);
