import { LIMITS } from '@carillon/core/limits';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createRateLimits } from '../src/http/rate-limits.ts';

const APP = { _id: 'app', registrationsPerHour: null };
const REFUSED = { code: 'RATE_LIMIT_EXCEEDED', retryAfterSeconds: expect.any(Number) };

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
});
afterAll(async () => {
  presence?.close();
  await server?.stop();
});

const startLimits = (hasAddressLimits = true) =>
  createRateLimits(
    createRateCounter(presence, () => undefined),
    hasAddressLimits,
  );

/** Addresses of one /64 network, and one of the next network. */
function addressesOf(network: number): { one: string; another: string; foreign: string } {
  const prefix = (n: number) => `2001:db8:0:${n.toString(16)}`;
  return {
    one: `${prefix(network)}::1`,
    another: `${prefix(network)}:ffff::9`,
    foreign: `${prefix(network + 1)}::1`,
  };
}

async function repeat(times: number, call: (n: number) => Promise<unknown>): Promise<void> {
  await Promise.all(Array.from({ length: times }, (_, n) => call(n)));
}

describe('new devices', () => {
  const { registrationsPerAddressHour } = LIMITS;

  test('of one network are limited, and those of another are not', async () => {
    const { one, another, foreign } = addressesOf(0x10);
    const { countRegistration } = startLimits();
    await repeat(registrationsPerAddressHour, () => countRegistration(one, APP));
    await expect(countRegistration(another, APP)).rejects.toMatchObject(REFUSED);
    await countRegistration(foreign, APP);
  });

  test('have no limit by address with ADDRESS_LIMITS=off', async () => {
    const { one } = addressesOf(0x20);
    const { countRegistration } = startLimits(false);
    await repeat(registrationsPerAddressHour + 1, () => countRegistration(one, APP));
  });
});

describe('changes of topics', () => {
  const { topicChangesPerDeviceMinute, topicChangesPerAddressMinute } = LIMITS;
  const devices = topicChangesPerAddressMinute / topicChangesPerDeviceMinute;

  test('of one network are limited, and a device above its own limit uses up nothing of it', async () => {
    const { one, another, foreign } = addressesOf(0x30);
    const { countTopicChange } = startLimits();
    await repeat(topicChangesPerDeviceMinute, () => countTopicChange('greedy', one));
    await repeat(topicChangesPerAddressMinute, () =>
      expect(countTopicChange('greedy', one)).rejects.toMatchObject(REFUSED),
    );
    await repeat((devices - 1) * topicChangesPerDeviceMinute, (n) =>
      countTopicChange(`device ${n % (devices - 1)}`, one),
    );
    await expect(countTopicChange('one more', another)).rejects.toMatchObject(REFUSED);
    await countTopicChange('elsewhere', foreign);
  });

  test('are limited by the device alone with ADDRESS_LIMITS=off', async () => {
    const { one } = addressesOf(0x40);
    const { countTopicChange } = startLimits(false);
    await repeat(topicChangesPerAddressMinute + devices, (n) =>
      countTopicChange(`another ${n % (devices + 2)}`, one),
    );
    await repeat(topicChangesPerDeviceMinute, () => countTopicChange('alone', one));
    await expect(countTopicChange('alone', one)).rejects.toMatchObject(REFUSED);
  });
});

test('wrong keys of one network are counted together, and not at all with ADDRESS_LIMITS=off', async () => {
  const { one, another, foreign } = addressesOf(0x50);
  const { countWrongKey, hasTooManyWrongKeys } = startLimits();
  for (let n = 0; n < LIMITS.wrongKeysPerHour; n += 1) expect(await countWrongKey(one)).toBe(false);
  expect(await countWrongKey(another)).toBe(true);
  expect([one, another, foreign].map(hasTooManyWrongKeys)).toEqual([true, true, false]);
  const unlimited = startLimits(false);
  expect(await unlimited.countWrongKey(one)).toBe(false);
  expect(unlimited.hasTooManyWrongKeys(one)).toBe(false);
});
