import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { untilOutcomes } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 120_000;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let other: ServiceProcess;
beforeEach(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  const FAILPOINTS = 'accept:stop#1';
  set = await startServiceSet(servers, (name) => (name === 'api' ? { FAILPOINTS } : {}));
  other = await startService('api', servers.env);
  await other.untilReady();
});
afterEach(async () => {
  await other?.stop();
  await set?.stop();
  await mongo?.close();
  await servers?.stop();
});

test.each([3, 1_500])(
  'the API is suspended before it inserts a push to %d devices: its late insert finds the push of the repeated request',
  async (recipients) => {
    const key = randomUUID();
    const tokens = Array.from({ length: recipients }, newDeviceToken);
    await insertDevices(set, mongo, tokens);
    const body = JSON.stringify({ to: tokens, data: { key } });
    const first = pushWithIdempotencyKey(set.dev, key, body);
    const api = set.services.find(({ service }) => service === 'api');
    await until(() => isStopped(api?.pid ?? 0), { what: 'a stopped API' });
    const otherApi = { ...set.dev, api: `http://127.0.0.1:${other.port}` };
    const repeated = await pushWithIdempotencyKey(otherApi, key, body);
    expect(repeated).toMatchObject({ status: 200, json: { info: { devices: recipients } } });
    api?.kill('SIGCONT');
    expect((await first).text).toBe(repeated.text);
    const pushes = mongo.db.collection<PushDocument>('pushes');
    const found = await pushes.find({ app: set.dev.app }).toArray();
    expect(found.map(({ _id }) => _id)).toEqual([repeated.json.id]);
    await untilOutcomes(mongo, { id: String(repeated.json.id) }, { inbox: recipients });
    expect(await mongo.db.collection('inbox').countDocuments({})).toBe(recipients);
  },
  LIMIT_MS,
);
