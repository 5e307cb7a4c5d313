import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { DeviceDocument } from '../../packages/store/src/documents.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 120_000;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let other: ServiceProcess;
beforeEach(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  const FAILPOINTS = 'address-released:kill#1';
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

/** Registers an installation with its address at one of the two APIs, and returns its token. */
async function register(api: string, fcmToken: string): Promise<string> {
  const body = { appId: set.dev.app, platform: 'android', sdk: 1, fcmToken };
  const { status, json } = await postWithoutKey<{ token: string }>(api, '/register', body);
  expect(status).toBe(200);
  return json.token;
}

const otherApi = () => `http://127.0.0.1:${other.port}`;

/** Lists the devices with an address. */
async function findHolders(address: string): Promise<string[]> {
  const devices = mongo.db.collection<DeviceDocument>('devices');
  const found = await devices.find({ 'provider.address': address }).toArray();
  return found.map(({ _id }) => _id);
}

test(
  'the API is killed between the deletion of the device that had an address and the next one: one has it when the registration is repeated',
  async () => {
    const address = `fcm:${randomBytes(20).toString('hex')}`;
    const before = await register(otherApi(), address);
    await expect(register(set.dev.api, address)).rejects.toThrow('fetch failed');
    expect(await findHolders(address)).toEqual([]);
    const repeated = await register(otherApi(), address);
    expect(await findHolders(address)).toEqual([repeated]);
    // The API died before it cleared the device: the scheduler does so.
    const devices = mongo.db.collection<DeviceDocument>('devices');
    const isCleared = async () => {
      const device = await devices.findOne({ _id: before });
      return device?.deletedAt !== undefined && device.leaving === undefined;
    };
    await until(isCleared, { timeoutMs: 60_000, what: 'a cleared device' });
  },
  LIMIT_MS,
);
