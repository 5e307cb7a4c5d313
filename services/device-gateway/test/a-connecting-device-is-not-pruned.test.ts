import { expect, test } from '@jest/globals';
import { useCrossings } from '../../../packages/store/test/crossings.ts';
import { pruneIdle, registerIdle } from '../../../packages/store/test/idle-device.ts';
import { useStore } from '../../../packages/store/test/use-store.ts';
import type { TestStore } from '../../../test/support/open-store.ts';
import { NO_ADDRESS_LIMITS } from '../src/address-limits.ts';
import { authenticate } from '../src/authenticate.ts';
import { AUTH_KEYS } from './gateway-under-test.ts';
import { connectPacket } from './raw-connection.ts';

const ADDRESS = '203.0.113.7';

const under = useStore();
const { store } = under;
const cross = useCrossings(under);

const givenIdle = async () => ({
  token: (await registerIdle(under)).token,
  connects: [] as boolean[],
});
type Given = Awaited<ReturnType<typeof givenIdle>>;

const connect = async ({ devices }: TestStore, { token, connects }: Given) => {
  const context = { devices, authKeys: AUTH_KEYS, limits: NO_ADDRESS_LIMITS };
  const { isAuthenticated } = await authenticate(context, connectPacket(token), ADDRESS);
  connects.push(isAuthenticated);
};
const prune = (by: TestStore, { token }: Given) => pruneIdle(by, token);

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
