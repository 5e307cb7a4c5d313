import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { BATCH_LEASE_MS } from '../../packages/core/src/batch.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';

const RECIPIENTS = 3;
/** Two workers take the batch from each other: a claim ends while its worker is blocked. */
const BLOCKED_MS = BATCH_LEASE_MS + 2_000;
/** Twelve claims, each until its lease has ended, with room for a busy machine. */
const FAILS_WITHIN_MS = 240_000;

const tokens = Array.from({ length: RECIPIENTS }, newDeviceToken).sort();
const FAILPOINTS = `rows:block=${BLOCKED_MS}@${tokens[1]}`;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let second: ServiceProcess;
beforeAll(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  set = await startServiceSet(servers, (name) =>
    name === 'delivery-worker' ? { FAILPOINTS } : {},
  );
  second = await startService('delivery-worker', { ...servers.env, FAILPOINTS });
  await second.untilReady();
});
afterAll(async () => {
  await second?.stop();
  await set?.stop();
  await mongo?.close();
  await servers?.stop();
});

test(
  'each worker that writes its row is blocked for longer than a lease; the others get theirs, and no worker ends',
  async () => {
    await insertDevices(set, mongo, tokens);
    const push = await sendPush(set, tokens);
    const pollOptions = { timeoutMs: FAILS_WITHIN_MS, everyMs: 500 };
    await untilOutcomes(mongo, push, { inbox: RECIPIENTS - 1, failed: 1 }, pollOptions);
    const rows = await mongo.db.collection('inbox').countDocuments({ push: push.id });
    expect(rows).toBe(RECIPIENTS - 1);
    for (const process of [...set.services, second]) expect(process.isRunning()).toBe(true);
  },
  FAILS_WITHIN_MS + 30_000,
);
