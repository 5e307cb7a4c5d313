import { MAX_OPEN_MS, SEVERAL } from '@carillon/core/circuit';
import { newObjectId } from '@carillon/core/ids';
import { parseSealingKeys, seal } from '@carillon/core/sealing';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { createWebPush } from '../src/channels/web-push/client.ts';
import type { Address, ProviderChannel } from '../src/deliver/provider.ts';
import { createProviderClientPool, type Upstream } from '../src/deliver/provider-clients.ts';
import { createBrowser, createSecret } from './web-push/browser.ts';

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

/** Lets as many recipients fail as open a circuit. */
function openCircuit(upstream: Upstream | undefined, retryAfterMs = 0): void {
  for (let n = 0; n < SEVERAL; n += 1) {
    const permit = upstream?.circuit.acquire(`${n}`);
    if (typeof permit === 'object') upstream?.circuit.onFailure(permit, retryAfterMs);
  }
  expect(upstream?.circuit.isOpen()).toBe(true);
}

test.each([
  ['whose time is over', 0, 2 * MAX_OPEN_MS, false],
  ['within the time that the provider names', 3_600_000, 3_000_000, true],
])(
  'the circuit of an app without pushes %s (%p, %p): listed %p',
  async (_case, retryAfterMs, idleMs, isListed) => {
    const { app, openWorker } = await createApp();
    const worker = openWorker();
    const clients = await worker.acquire(app);
    openCircuit(clients.findClient(ADDRESS)?.upstreamOf(ADDRESS), retryAfterMs);
    const listAfter = (ms: number) => {
      const later = performance.now() + ms;
      const now = jest.spyOn(performance, 'now').mockReturnValue(later);
      const listed = [...worker.listOpenCircuits()].map((one) => one.app);
      now.mockRestore();
      return listed;
    };
    expect(listAfter(idleMs)).toEqual([app]);
    clients.release();
    expect(listAfter(1_000)).toEqual([app]);
    expect(listAfter(idleMs)).toEqual(isListed ? [app] : []);
    await worker.close();
  },
);

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

test('servers that devices have chosen displace no circuit of a vendor, and are not counted', async () => {
  const { credentials } = database.store;
  const app = newObjectId();
  const key = { app, channel: 'web-push' as const };
  await credentials.put(key, seal(KEYS, credentialId(key), JSON.stringify(createSecret())), {});
  const worker = createProviderClientPool({
    name: 'web-push',
    loadChannel: async () => createWebPush({ hosts: parsePushHosts(['*']) }),
    keys: KEYS,
    credentials,
    onError: () => undefined,
  });
  const browser = createBrowser();
  const clients = await worker.acquire(app);
  const upstreamOf = (endpoint: string) => {
    const address = browser.address(endpoint);
    return clients.findClient(address)?.upstreamOf(address);
  };
  const vendor = upstreamOf('https://fcm.googleapis.com/x');
  const dead = upstreamOf('https://dead.example/x');
  openCircuit(dead);
  expect(worker.countCircuits()).toEqual({ closed: 1, open: 0, 'half-open': 0 });
  for (let n = 0; n < 1_500; n += 1) upstreamOf(`https://${n}.example/x`);
  expect(upstreamOf('https://fcm.googleapis.com/y')).toBe(vendor);
  clients.release();
  await worker.close();
});
