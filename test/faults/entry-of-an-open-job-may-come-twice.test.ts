import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import {
  expectClaimedAtOnce,
  expectDelivered,
  sendWaiting,
  untilClaimedByWorker,
} from '../support/faults/joined-push-ends.ts';
import {
  ENTRIES_KEY,
  expectInitialClaim,
  type JoinedPushes,
  listRuns,
  openJoinedPushes,
} from '../support/faults/joined-pushes.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 120_000;
/** Redis has responded to the blocking commands of a worker that was frozen so long ago: to the read of the list, of a job. */
const READ_ENDED_MS = 400;
const JOB_READ_ENDED_MS = 5_500;
/** No worker takes an entry under its initial claim after it. */
const LATE_MS = 600;
/** Enough for two workers at once. */
const MANY = 900;

let joined: JoinedPushes;
let device: MqttDevice;
beforeAll(async () => {
  joined = await openJoinedPushes();
}, LIMIT_MS);
beforeEach(async () => {
  device = await newMqttDevice(joined.set.dev);
  await device.connect();
});
afterEach(async () => {
  await device?.disconnect();
  await joined?.stopProcesses();
}, LIMIT_MS);
afterAll(() => joined?.stop());

async function freeze(worker: ServiceProcess): Promise<void> {
  worker.kill('SIGSTOP');
  await until(() => isStopped(worker.pid), { everyMs: 5 });
}

/** Starts two workers that keep a job open each, and are frozen. */
async function startTwoFrozen(): Promise<[ServiceProcess, ServiceProcess]> {
  const first = await joined.startWorker();
  const second = await joined.startWorker();
  await joined.untilOpenJobs(2);
  await Promise.all([freeze(first), freeze(second)]);
  await sleep(READ_ENDED_MS);
  return [first, second];
}

/** Counts the recipients of a worker that have ended as delivered. */
async function countDelivered({ ops }: ServiceProcess): Promise<number> {
  const text = await (await fetch(`${ops}/metrics`)).text();
  const line = /^carillon_recipients_total\{channel="mqtt",outcome="delivered"\} (\d+)$/m;
  return Number(line.exec(text)?.[1] ?? 0);
}

const handOut = (entry: string, times: number) =>
  joined.redis.rpush(ENTRIES_KEY, ...Array<string>(times).fill(entry));
const untilRun = (worker: ServiceProcess, push: SentPush, runs: number) =>
  until(() => listRuns(worker, push).length >= runs, {
    timeoutMs: 20_000,
    what: `${runs} runs of the push`,
  });
const untilTaken = () =>
  until(async () => (await joined.redis.llen(ENTRIES_KEY)) === 0, { what: 'no entry' });

describe('at once', () => {
  test(
    'to one worker: the device has the push once',
    async () => {
      await joined.startWorker();
      const [push, entry] = await sendWaiting(joined, device.token);
      await handOut(entry, MANY);
      await joined.openJobs();
      expectInitialClaim(await expectDelivered(joined, device, push));
    },
    LIMIT_MS,
  );

  test.each(['connected', 'offline'])(
    'to two workers: the device, which is %s, has the push once',
    async (state) => {
      const workers = await startTwoFrozen();
      if (state === 'offline') await device.disconnect();
      const [push, entry] = await sendWaiting(joined, device.token);
      await handOut(entry, MANY);
      workers[0].kill('SIGCONT');
      const hasBegun = async () => (await joined.redis.llen(ENTRIES_KEY)) <= MANY;
      await until(hasBegun, { everyMs: 0, what: 'an entry that is taken' });
      workers[1].kill('SIGCONT');
      await joined.jobs.resume('send');
      await untilTaken();
      if (state === 'offline') {
        await untilOutcomes(joined.mongo, push, { inbox: 1 });
        expect(await joined.countRows(push)).toBe(1);
        await device.connect();
      }
      expectInitialClaim(await expectDelivered(joined, device, push));
      const runs = workers.map((worker) => listRuns(worker, push));
      expect(runs.filter((ends) => ends.includes('settled'))).toHaveLength(2);
    },
    LIMIT_MS,
  );
});

describe('with a collapse key', () => {
  const COLLAPSE = { collapse_key: 'score' };

  test(
    'at once to two workers, and after a newer push of the key: the device has both once, the newer one last',
    async () => {
      const workers = await startTwoFrozen();
      const [older, entry] = await sendWaiting(joined, device.token, COLLAPSE);
      await handOut(entry, MANY);
      for (const worker of workers) worker.kill('SIGCONT');
      await joined.jobs.resume('send');
      await untilTaken();
      await untilOutcomes(joined.mongo, older, { delivered: 1 });
      const newer = await sendPush(joined.set, device.token, COLLAPSE);
      await untilOutcomes(joined.mongo, newer, { delivered: 1 });
      await device.connect();
      await joined.untilOpenJobs(2);
      await handOut(entry, MANY);
      await untilTaken();
      await expectDelivered(joined, device, newer);
      await expectDelivered(joined, device, older);
      const order = device.arrivals.map(({ payload }) => payload);
      expect(order.indexOf(newer.payload)).toBeGreaterThan(order.indexOf(older.payload));
    },
    LIMIT_MS,
  );
});

describe('since the API has lost the response of Redis', () => {
  test(
    'the API does not repeat the entry, and the device has the push once',
    async () => {
      const { redisProxy } = joined.servers;
      await joined.startWorker();
      await joined.prime();
      redisProxy.dropResponses();
      const push = await joined.sendClaimed(device.token);
      const listEntries = () => joined.redis.lrange(ENTRIES_KEY, 0, -1);
      const countOfPush = async () =>
        (await listEntries()).filter((entry) => entry.startsWith(push.id)).length;
      await until(async () => (await countOfPush()) === 1, { everyMs: 2, what: 'the entry' });
      redisProxy.cut();
      redisProxy.restore();
      // A push that joins shows that the connection is back, which would have repeated its commands by then.
      const other = await newMqttDevice(joined.set.dev);
      await until(async () => {
        await sendPush(joined.set, other.token);
        return (await listEntries()).length > (await countOfPush());
      });
      expect(await countOfPush()).toBe(1);
      await joined.untilOpenJobs(1);
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );
});

describe('right after the settlement', () => {
  /** Hands out an entry again to the worker that has just settled its push. */
  async function handOutSettled(
    between: () => Promise<unknown>,
    worker: ServiceProcess,
  ): Promise<SentPush> {
    const [push, entry] = await sendWaiting(joined, device.token);
    await joined.openJobs();
    await until(() => listRuns(worker, push).length > 0, { everyMs: 1 });
    expectInitialClaim(await joined.readBatch(push));
    await between();
    await handOut(entry, 1);
    await joined.openJobs();
    await untilRun(worker, push, 2);
    expect(listRuns(worker, push)).toEqual(['settled', 'not taken']);
    return push;
  }

  test.each<[what: string, between: () => Promise<unknown>]>([
    ['is still there', async () => undefined],
    ['has reconnected', () => device.connect()],
  ])(
    'the device, which %s, has the push once, and it counts once',
    async (_what, between) => {
      const worker = await joined.startWorker();
      let before = 0;
      const count = async () => {
        before = await countDelivered(worker);
        await between();
      };
      const push = await handOutSettled(count, worker);
      expect(before).toBeGreaterThan(0);
      expect(await countDelivered(worker)).toBe(before);
      expectInitialClaim(await expectDelivered(joined, device, push));
    },
    LIMIT_MS,
  );

  test(
    'no row is left for the device that is offline now',
    async () => {
      const push = await handOutSettled(() => device.disconnect(), await joined.startWorker());
      await untilOutcomes(joined.mongo, push, { delivered: 1 });
      expect(await joined.countRows(push)).toBe(0);
    },
    LIMIT_MS,
  );
});

describe('late', () => {
  test(
    'after the settlement: nothing is sent or written',
    async () => {
      const worker = await joined.startWorker();
      const [push, entry] = await sendWaiting(joined, device.token);
      await joined.openJobs();
      const settled = await expectDelivered(joined, device, push);
      expectInitialClaim(settled);
      await sleep(LATE_MS);
      await device.connect();
      await handOut(entry, 1);
      await joined.openJobs();
      await untilRun(worker, push, 2);
      expect(listRuns(worker, push)).toEqual(['settled', 'not taken']);
      expect(await expectDelivered(joined, device, push)).toEqual(settled);
    },
    LIMIT_MS,
  );

  test(
    'to the worker that waits for the receipt: it does not claim the push, and the device has it once',
    async () => {
      device.holdReceipts();
      const worker = await joined.startWorker();
      const [push, entry] = await sendWaiting(joined, device.token);
      await joined.openJobs();
      await until(() => countArrivals(device, push) === 1, { everyMs: 2 });
      await sleep(LATE_MS);
      await handOut(entry, MANY);
      await untilTaken();
      device.releaseReceipts();
      await untilRun(worker, push, 1);
      expectInitialClaim(await expectDelivered(joined, device, push));
    },
    LIMIT_MS,
  );

  /**
   * Hands out an entry again to a second worker, while the first one is frozen under the initial claim. Continues the first
   * one when the second one has settled the push.
   */
  async function handOutWhileFrozen(isReceiptHeld: boolean, reconnects: boolean) {
    const second = await joined.startWorker();
    await freeze(second);
    await sleep(JOB_READ_ENDED_MS);
    if (isReceiptHeld) device.holdReceipts();
    const first = await joined.startWorker(isReceiptHeld ? '' : 'dispatched:stop#1');
    const [push, entry] = await sendWaiting(joined, device.token);
    await joined.openJobs();
    await until(() => countArrivals(device, push) === 1, { everyMs: 2 });
    if (isReceiptHeld) await freeze(first);
    await until(() => isStopped(first.pid), { everyMs: 2 });
    expectInitialClaim(await joined.readBatch(push));
    if (reconnects) await device.connect();
    await sleep(LATE_MS);
    second.kill('SIGCONT');
    // The first one has read the list last, too.
    await joined.untilOpenJobs(2);
    await handOut(entry, 1);
    await untilClaimedByWorker(joined, push);
    device.releaseReceipts();
    await untilRun(second, push, 1);
    first.kill('SIGCONT');
    await untilRun(first, push, 1);
    return push;
  }

  test.each<[receipt: string, isReceiptHeld: boolean]>([
    ['waits for the receipt', true],
    ['has the receipt', false],
  ])(
    'to a second worker, while the first one %s: the second one claims the push at once, and the device has it once',
    async (_, isReceiptHeld) => {
      const push = await handOutWhileFrozen(isReceiptHeld, false);
      expectClaimedAtOnce(await expectDelivered(joined, device, push));
    },
    LIMIT_MS,
  );

  test(
    'to a second worker, while the first one has the receipt: the device that has reconnected has it at most once more',
    async () => {
      const push = await handOutWhileFrozen(false, true);
      expectClaimedAtOnce(await expectDelivered(joined, device, push, 2));
    },
    LIMIT_MS,
  );
});
