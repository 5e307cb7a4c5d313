import { newObjectId } from '@carillon/core/ids';
import { parseSealingKeys, seal } from '@carillon/core/sealing';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import type { Address, ProviderChannel } from '../src/deliver/provider.ts';
import { createProviderClientPool } from '../src/deliver/provider-clients.ts';

const KEYS = parseSealingKeys(`1:${'ab'.repeat(32)}`);
const ADDRESS: Address = { channel: 'fcm', address: 'device', since: new Date(0) };
const SECRET = {
  kind: 'fcm',
  projectId: 'p',
  clientEmail: 'a@example.org',
  privateKey: 'key',
  privateKeyId: 'id',
  tokenUri: 'https://example.org/token',
};
/** A channel whose requests the test reports itself. */
const CHANNEL: ProviderChannel = {
  window: 1,
  connect: () => ({
    upstreamKeyOf: () => 'fcm',
    prepare: () => async () => ({ kind: 'sent' }),
    close: async () => undefined,
  }),
};

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database?.stop());

/** Creates an app with a credential, and the pool of a worker. */
async function createApp() {
  const { credentials } = database.store;
  const app = newObjectId();
  const key = { app, channel: 'fcm' as const };
  const put = () => credentials.put(key, seal(KEYS, credentialId(key), JSON.stringify(SECRET)), {});
  await put();
  const errors: unknown[] = [];
  const openWorker = () =>
    createProviderClientPool({
      name: 'fcm',
      loadChannel: async () => CHANNEL,
      keys: KEYS,
      credentials,
      onError: (error) => errors.push(error),
    });
  const read = async () => (await credentials.find(key))?.refused?.detail;
  return { app, put, openWorker, read, errors };
}

test('an accepted answer does not remove the mark while others may wait; a new credential does', async () => {
  const { app, put, openWorker, read, errors } = await createApp();
  const [refusing, accepting] = [openWorker(), openWorker()];
  const first = await refusing.acquire(app);
  first?.findClient(ADDRESS)?.onRefused('401 THIRD_PARTY_AUTH_ERROR');
  await until(async () => (await read()) === '401 THIRD_PARTY_AUTH_ERROR');
  first?.findClient(ADDRESS)?.onAccepted();
  const second = await accepting.acquire(app);
  second?.findClient(ADDRESS)?.onAccepted();
  first?.findClient(ADDRESS)?.onRefused('401 again');
  await until(async () => (await read()) === '401 again');
  await put();
  expect(await read()).toBeUndefined();
  expect(errors).toEqual([]);
  for (const clients of [first, second]) clients?.release();
  await Promise.all([refusing.close(), accepting.close()]);
});

test('the mark is removed once its round is over, by any worker', async () => {
  const { app, openWorker, read } = await createApp();
  const { credentials } = database.store;
  const { _id, revision } = (await credentials.listForChannel(app, 'fcm'))[0] ?? {};
  await credentials.recordRefusal(_id ?? '', revision ?? '', '401', 60_000);
  expect(await credentials.clearRefusal(_id ?? '', revision ?? '')).toBe(false);
  expect(await read()).toBe('401');
  await credentials.recordRefusal(_id ?? '', revision ?? '', '401', 0);
  const worker = openWorker();
  const clients = await worker.acquire(app);
  clients?.findClient(ADDRESS)?.onAccepted();
  await until(async () => (await read()) === undefined);
  clients?.release();
  await worker.close();
});
