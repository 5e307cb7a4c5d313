import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const IPHONES = 60;
/** Delay of each answer, and how much of it has passed at least when the answer comes. */
const ANSWER_MS = 200;
const ANSWERED_MS = 190;

let fixture: ProviderFixture;
beforeAll(async () => {
  fixture = await openProviderFixture();
});
afterAll(() => fixture?.close());

test('a provider that broke connections gets one push, and one more at once with each answer', async () => {
  const { sandbox, store } = fixture;
  const tenant = await fixture.tenant();
  const { tokens } = await registerIphones(tenant, IPHONES);
  await sandbox.setFaults('apns', { dropEvery: 1 });
  const push = await send(tenant, tokens);
  const received = () => sandbox.received(push.id);
  await until(async () => (await received()).length >= SEVERAL);
  await sandbox.setFaults('apns', { dropEvery: null, delayMs: ANSWER_MS });
  await untilOutcomeCounts(store, push, { sent: IPHONES });

  const times = (await received()).filter(({ status }) => status === 200).map(({ at }) => at);
  const inFlight = times.map((now) => {
    const before = times.filter((at) => at <= now);
    const answered = before.filter((at) => at + ANSWERED_MS <= now).length;
    expect(before.length - answered).toBeLessThanOrEqual(1 + answered);
    return before.length - answered;
  });
  expect(Math.max(...inFlight)).toBeGreaterThan(IPHONES / 4);
});
