import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import type { AddressDocument, DeviceDocument } from '../../packages/store/src/documents.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';

const LIMIT_MS = 120_000;

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let other: ServiceProcess;
beforeEach(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  const FAILPOINTS = 'address-entered:kill#1';
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

/** Lists the devices that were entered for the only address there is. */
async function listEntered(): Promise<string[]> {
  const found = await mongo.db.collection<AddressDocument>('addresses').find().toArray();
  return found.flatMap(({ holders }) => holders.map(({ token }) => token));
}

test.each([
  ['that no device has', false],
  ['that another device has', true],
])(
  'the API is killed between an address %s and the device: one device has it when the registration is repeated',
  async (_, isTaken) => {
    const address = `fcm:${randomBytes(20).toString('hex')}`;
    const before = isTaken ? [await register(otherApi(), address)] : [];
    await expect(register(set.dev.api, address)).rejects.toThrow('fetch failed');
    // The device is entered, and was never written.
    expect(await listEntered()).toHaveLength(before.length + 1);
    expect(await findHolders(address)).toEqual(before);
    const repeated = await register(otherApi(), address);
    expect(await findHolders(address)).toEqual([repeated]);
    // The entry of the device that was never stored blocks no later registration either.
    const next = await register(otherApi(), address);
    expect(await findHolders(address)).toEqual([next]);
  },
  LIMIT_MS,
);
