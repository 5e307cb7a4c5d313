import { expect, test } from '@jest/globals';
import { DeletedDeviceError } from '../src/device-registration.ts';
import type { DeviceDocument } from '../src/documents.ts';
import { buildReplacement, IS_HOLDER } from '../src/former-devices.ts';
import { useCrossings } from './crossings.ts';
import { APP } from './document-fixtures.ts';
import { useStore } from './use-store.ts';

const DAY_MS = 86_400_000;

const under = useStore();
const { store } = under;
const cross = useCrossings(under);
const devices = () => under.db.collection<DeviceDocument>('devices');

test('a device that ends while its installation registers it with another end is deleted, or lives on with that', async () => {
  let deletions = 0;
  const crossings = await cross({
    async given() {
      const options = { expiresInSeconds: 86_400 };
      const { token } = await store.devices.register(APP, 'ios', undefined, options);
      return { token };
    },
    // As of a process whose clock is ahead.
    held: (by) => by.deletedDevices.deleteExpired(store.clock.now() + 2 * DAY_MS, 1_000),
    meanwhile: (by, { token }) =>
      by.devices
        .renew(APP, token, undefined, { expiresInSeconds: 10 * 86_400 })
        .catch((error) => expect(error).toBeInstanceOf(DeletedDeviceError)),
    async check({ token }) {
      const device = await store.devices.find(token);
      const end = store.clock.now() + 9 * DAY_MS;
      if (device?.deletedAt === undefined)
        expect(device?.expiresAt?.getTime()).toBeGreaterThan(end);
      else {
        deletions += 1;
        expect(device).not.toHaveProperty('expiresAt');
      }
    },
  });
  expect(deletions).toBeGreaterThan(0);
  expect(deletions).toBeLessThan(crossings);
});

test('the devices that one has replaced live again when it has ended, the last of them with its address', async () => {
  const address = { channel: 'fcm', address: 'address' } as const;
  const register = (expiresInSeconds?: number) =>
    store.devices.register(APP, 'ios', address, { expiresInSeconds });
  const [first, second, last] = [await register(), await register(), await register(-1)];
  await store.deletedDevices.deleteExpired(store.clock.now(), 1_000);
  // As of processes that die and are repeated.
  for (const { token } of [last, last, first, second, second, first])
    await store.deletedDevices.clearLeftovers(APP, token);
  const holders = await devices()
    .find({ 'provider.address': 'address', ...IS_HOLDER })
    .toArray();
  expect(holders).toHaveLength(1);
  const holder = holders[0]?._id ?? '';
  const lives = [first.token, second.token];
  expect(lives).toContain(holder);
  const former = lives.find((token) => token !== holder) ?? '';
  expect(await store.devices.find(former)).toMatchObject({ replacedBy: holder });
  expect(await store.devices.find(holder)).not.toHaveProperty('replacedBy');
  expect(await store.devices.find(last.token)).toHaveProperty('deletedAt');
});

test('a device that has ended is reached by nothing before it is deleted, and its credentials end', async () => {
  const options = { expiresInSeconds: -1, deviceIdHash: 'hash' };
  const { token } = await store.devices.register(APP, 'ios', undefined, options);
  const reads = [store.devices.findReachable(APP, [token]), store.devices.findForConnect(token)];
  expect(await Promise.all(reads)).toEqual([[], undefined]);
  const again = { expiresInSeconds: 86_400 };
  const renewed = store.devices.renew(APP, token, undefined, again);
  await expect(renewed).rejects.toThrow(DeletedDeviceError);
  await devices().updateOne({ _id: token }, buildReplacement('other'));
  expect(await store.devices.restore(APP, token)).toBe(false);
});
