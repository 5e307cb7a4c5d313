import { expect, test } from '@jest/globals';
import { useCrossings } from '../../../packages/store/test/crossings.ts';
import { APP } from '../../../packages/store/test/document-fixtures.ts';
import { useStore } from '../../../packages/store/test/use-store.ts';
import type { TestStore } from '../../../test/support/open-store.ts';
import { NO_ADDRESS_LIMITS } from '../src/address-limits.ts';
import { authenticate } from '../src/authenticate.ts';
import { AUTH_KEYS } from './gateway-under-test.ts';
import { connectPacket } from './raw-connection.ts';

const ADDRESS = '203.0.113.7';
const YEAR_MS = 365 * 86_400_000;

const under = useStore();
const { store } = under;
const cross = useCrossings(under);

/** A device that registered a year ago and was not seen since. */
async function givenIdle() {
  const { token } = await store.devices.register(APP, 'electron');
  const longAgo = new Date(store.clock.now() - YEAR_MS);
  const seen = { $set: { registeredAt: longAgo, lastActiveAt: longAgo } };
  await under.db.collection<{ _id: string }>('devices').updateOne({ _id: token }, seen);
  return { token, connects: [] as boolean[] };
}
type Given = Awaited<ReturnType<typeof givenIdle>>;

const connect = async ({ devices }: TestStore, { token, connects }: Given) => {
  const context = { devices, authKeys: AUTH_KEYS, limits: NO_ADDRESS_LIMITS };
  const { isAuthenticated } = await authenticate(context, connectPacket(token), ADDRESS);
  connects.push(isAuthenticated);
};
const prune = async (by: TestStore, { token }: Given) => {
  const before = new Date(by.clock.now() - YEAR_MS / 2);
  const deleted = await by.deletedDevices.deleteIdle(APP, [token], before);
  await by.deletedDevices.clearIdle(APP, deleted);
};

test.each([
  { name: 'a CONNECT', held: connect, meanwhile: prune },
  { name: 'a prune', held: prune, meanwhile: connect },
])(
  '$name that is held before any statement: an accepted device is there, and a deleted one is rejected',
  async ({ held, meanwhile }) => {
    const ends: boolean[] = [];
    await cross({
      given: givenIdle,
      held,
      meanwhile,
      async check({ token, connects: [isAccepted] }) {
        const device = await store.devices.find(token);
        expect(isAccepted).toBe(device?.deletedAt === undefined);
        ends.push(isAccepted === true);
      },
    });
    expect(new Set(ends)).toEqual(new Set([true, false]));
  },
);
