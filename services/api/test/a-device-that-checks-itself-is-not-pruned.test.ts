import { ApiError } from '@carillon/core/api-error';
import { createDeviceAuth, parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { expect, test } from '@jest/globals';
import { useCrossings } from '../../../packages/store/test/crossings.ts';
import { pruneIdle, registerIdle } from '../../../packages/store/test/idle-device.ts';
import { profile } from '../../../packages/store/test/store-under-test.ts';
import { useStore } from '../../../packages/store/test/use-store.ts';
import type { TestStore } from '../../../test/support/open-store.ts';
import { checkDevice } from '../src/registration/check-device.ts';
import { createOutageWatch } from '../src/registration/outage-watch.ts';

const authKeys = parseDeviceAuthKeys(`1:${'ab'.repeat(32)}`);

const under = useStore();
const { store } = under;
const cross = useCrossings(under);

const givenIdle = async () => ({
  token: (await registerIdle(under)).token,
  checks: [] as boolean[],
});
type Given = Awaited<ReturnType<typeof givenIdle>>;

/** As a browser or an SDK does at each start. */
async function check(by: TestStore, { token, checks }: Given): Promise<void> {
  const context = { authKeys, outageWatch: createOutageWatch(by.ping) };
  const auth = createDeviceAuth(authKeys, token);
  const isValid = await checkDevice(by, context, { token, auth }).then(
    () => true,
    (error: unknown) => {
      expect(error).toBeInstanceOf(ApiError);
      return false;
    },
  );
  checks.push(isValid);
}
const prune = (by: TestStore, { token }: Given) => pruneIdle(by, token);

test.each([
  { name: 'a check', held: check, meanwhile: prune },
  { name: 'a prune', held: prune, meanwhile: check },
])(
  '$name that is held before any statement: a device that is valid is there, and a deleted one is not valid',
  async ({ held, meanwhile }) => {
    const ends: boolean[] = [];
    await cross({
      given: givenIdle,
      held,
      meanwhile,
      async check({ token, checks: [isValid] }) {
        const device = await store.devices.find(token);
        expect(isValid).toBe(device?.deletedAt === undefined);
        ends.push(isValid === true);
      },
    });
    expect(new Set(ends)).toEqual(new Set([true, false]));
  },
);

test('a check records a device as seen once in some days, and its way to MQTT stays', async () => {
  const { token } = await registerIdle(under, 'android');
  const given = { token, checks: [] as boolean[] };
  const before = await store.devices.find(token);
  await check(store, given);
  const after = await store.devices.find(token);
  const seenMsAgo = store.clock.now() - (after?.lastActiveAt.getTime() ?? 0);
  expect(seenMsAgo).toBeLessThan(60_000);
  expect({ ...after, lastActiveAt: before?.lastActiveAt }).toEqual(before);
  expect(await profile(under, () => check(store, given), { op: 'update' })).toEqual([]);
  expect(given.checks).toEqual([true, true]);
});
