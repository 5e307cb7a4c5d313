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
/** Longer than an id is kept for repeated requests. */
const LATER_MS = 4_000;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let other: ServiceProcess;
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

/** Starts the services with a failpoint in the API between the two writes of a push with a key, and a second API. */
async function startServices(action: 'kill' | 'stop'): Promise<void> {
  const FAILPOINTS = `key-reserved:${action}#1`;
  set = await startServiceSet(servers, (name) => (name === 'api' ? { FAILPOINTS } : {}));
  other = await startService('api', servers.env);
  await other.untilReady();
}

function createRequest(recipients: number) {
  const key = randomUUID();
  const tokens = Array.from({ length: recipients }, newDeviceToken);
  const body = JSON.stringify({ to: tokens, data: { key } });
  const apiOf = ({ port }: ServiceProcess) => `http://127.0.0.1:${port}`;
  return {
    key,
    tokens,
    sendToFirst: () => pushWithIdempotencyKey(set.dev, key, body),
    sendToOther: () => pushWithIdempotencyKey({ ...set.dev, api: apiOf(other) }, key, body),
  };
}

const findStored = (key: string) =>
  mongo.db.collection<PushDocument>('pushes').find({ 'idempotency.key': key }).toArray();
const findReserved = async (key: string) => {
  const found = await mongo.db
    .collection<{ _id: string; push: string }>('idempotency_keys')
    .findOne({ _id: `${set.dev.app}:${key}` });
  return found?.push;
};

async function untilReserved(key: string): Promise<string> {
  return until(() => findReserved(key), { what: 'the document of the key' });
}

test.each([3, 1_500])(
  'the API is killed between the key and the push to %d devices: the repeated request makes one push',
  async (recipients) => {
    await startServices('kill');
    const { key, tokens, sendToFirst, sendToOther } = createRequest(recipients);
    await insertDevices(set, mongo, tokens);
    await expect(sendToFirst()).rejects.toThrow();
    expect(await findStored(key)).toEqual([]);
    expect(await findReserved(key)).toBeDefined();
    const repeated = await sendToOther();
    expect(repeated).toMatchObject({ status: 200, json: { info: { devices: recipients } } });
    expect((await sendToOther()).text).toBe(repeated.text);
    expect((await findStored(key)).map(({ _id }) => _id)).toEqual([repeated.json.id]);
    await untilOutcomes(mongo, { id: String(repeated.json.id) }, { inbox: recipients });
    expect(await mongo.db.collection('inbox').countDocuments({})).toBe(recipients);
  },
  LIMIT_MS,
);

test(
  'the API is suspended between the key and the push: its late write makes no second push',
  async () => {
    await startServices('stop');
    const { key, tokens, sendToFirst, sendToOther } = createRequest(3);
    await insertDevices(set, mongo, tokens);
    const first = sendToFirst();
    const reserved = await untilReserved(key);
    const api = set.services.find(({ service }) => service === 'api');
    await until(() => isStopped(api?.pid ?? 0), { what: 'a stopped API' });
    const startedAt = performance.now();
    const isLater = () => performance.now() - startedAt > LATER_MS;
    await until(isLater, { timeoutMs: 2 * LATER_MS, everyMs: 200 });
    const repeated = await sendToOther();
    expect(repeated.status).toBe(200);
    expect(repeated.json.id).not.toBe(reserved);
    api?.kill('SIGCONT');
    const late = await first;
    expect([late.status, late.text.includes(reserved)]).toEqual([503, false]);
    expect((await findStored(key)).map(({ _id }) => _id)).toEqual([repeated.json.id]);
    await untilOutcomes(mongo, { id: String(repeated.json.id) }, { inbox: 3 });
    expect(await mongo.db.collection('inbox').countDocuments({})).toBe(3);
  },
  LIMIT_MS,
);
