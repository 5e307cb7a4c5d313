import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { Failpoint } from '../../packages/core/src/failpoint.ts';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { attemptPush } from '../support/faults/attempts.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { callApi } from '../support/stack/call-api.ts';

const LIMIT_MS = 120_000;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let other: ServiceProcess | undefined;
beforeEach(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
});
afterEach(async () => {
  await other?.stop();
  await set?.stop();
  await mongo?.close();
  await servers?.stop();
});

/** Starts another API in the place of one that was killed. */
async function startOther(): Promise<Pick<ServiceSet, 'api'>> {
  other = await startService('api', servers.env);
  await other.untilReady();
  const dev = { ...set.dev, api: `http://127.0.0.1:${other.port}` };
  return { api: (method, path, body) => callApi(dev, method, path, body) };
}

const cases: [failpoint: Failpoint, recipients: number, accepted: number][] = [
  ['accept', 3, 0],
  ['accept', 2_000, 0],
  ['accept-batches', 2_000, 0],
  ['accepted', 3, 1],
  ['accepted', 2_000, 1],
];

test.each(cases)(
  'at the failpoint %s, with a push to %d devices: %d accepted',
  async (failpoint, recipients, accepted) => {
    const FAILPOINTS = `${failpoint}:kill#1`;
    set = await startServiceSet(servers, (name) => (name === 'api' ? { FAILPOINTS } : {}));
    const tokens = Array.from({ length: recipients }, newDeviceToken);
    await insertDevices(set, mongo, tokens);
    expect(await attemptPush(set, tokens)).toMatchObject({ isAccepted: false });
    const pushes = mongo.db.collection<{ _id: string }>('pushes');
    const found = await pushes.find({ state: { $ne: 'accepting' } }).toArray();
    expect(found).toHaveLength(accepted);
    const next = await sendPush(await startOther(), tokens);
    await untilOutcomes(mongo, next, { inbox: recipients });
    for (const { _id } of found) await untilOutcomes(mongo, { id: _id }, { inbox: recipients });
    const rows = await mongo.db.collection('inbox').countDocuments({});
    expect(rows).toBe((accepted + 1) * recipients);
  },
  LIMIT_MS,
);
