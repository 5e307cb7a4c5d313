import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';

const RECIPIENTS = 3;
/** Pushes to one device each, half of them sent before the one that blocks. */
const NEIGHBOURS = 200;
const SENT_AT_ONCE = 20;
/** A claim ends while its worker is blocked; if there is another worker, it takes the batch. */
const BLOCKED_MS = BATCH_LEASE_MS + 2_000;
/** Twelve claims, each until its lease has ended, with room for a busy machine. */
const FAILS_WITHIN_MS = 360_000;

const POISON = newDeviceToken();
const FAILPOINTS = `rows:block=${BLOCKED_MS}@${POISON}`;

describe.each([1, 2])('%i workers that are blocked for longer than a lease each time', (count) => {
  let servers: DataServers;
  let mongo: TestMongo;
  let set: ServiceSet;
  const workers: ServiceProcess[] = [];
  beforeAll(async () => {
    servers = await startDataServers();
    mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
    set = await startServiceSet(servers, () => ({}));
    await set.services.find(({ service }) => service === 'delivery-worker')?.stop();
  });
  afterAll(async () => {
    await Promise.all(workers.map((worker) => worker.stop()));
    await set?.stop();
    await mongo?.close();
    await servers?.stop();
  });

  async function sendToNeighbour(token: string): Promise<string[]> {
    const pushes: string[] = [];
    for (let sent = 0; sent < NEIGHBOURS / 2; sent += SENT_AT_ONCE) {
      const some = Array.from({ length: SENT_AT_ONCE }, () => sendPush(set, token));
      pushes.push(...(await Promise.all(some)).map(({ id }) => id));
    }
    return pushes;
  }

  test(
    'the recipient fails alone; all others get their row, also those of pushes claimed with it, and no worker ends',
    async () => {
      const tokens = [newDeviceToken(), POISON, newDeviceToken()].sort();
      const neighbour = newDeviceToken();
      await insertDevices(set, mongo, [...tokens, neighbour]);
      // Without a worker all of them wait, and the first worker takes them together.
      const neighbours = await sendToNeighbour(neighbour);
      const push = await sendPush(set, tokens);
      neighbours.push(...(await sendToNeighbour(neighbour)));
      while (workers.length < count)
        workers.push(await startService('delivery-worker', { ...servers.env, FAILPOINTS }));

      const pollOptions = { timeoutMs: FAILS_WITHIN_MS, everyMs: 500 };
      await untilOutcomes(mongo, push, { inbox: RECIPIENTS - 1, failed: 1 }, pollOptions);
      for (const id of neighbours) await untilOutcomes(mongo, { id }, { inbox: 1 }, pollOptions);
      const inbox = mongo.db.collection('inbox');
      expect(await inbox.countDocuments({ push: push.id })).toBe(RECIPIENTS - 1);
      expect(await inbox.countDocuments({ push: { $in: neighbours } })).toBe(NEIGHBOURS);
      const wasHeld = { _id: { $in: neighbours }, 'work.lapsed': { $gt: 0 } };
      const pushes = mongo.db.collection<PushDocument>('pushes');
      expect(await pushes.countDocuments(wasHeld)).toBeGreaterThan(0);
      for (const worker of workers) expect(worker.isRunning()).toBe(true);
    },
    FAILS_WITHIN_MS + 120_000,
  );
});
