import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal, untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** Far longer than what the test waits for. */
const WAIT_S = 600;
const POLL_OPTIONS = { timeoutMs: 10_000 };

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant();
});
afterAll(() => fixture?.close());

interface ReportedRecipient {
  token: string;
  outcome: string;
  reason?: string;
  detail?: string;
  tries?: number;
  nextTryAt?: string;
}

const runJson = <T>(...args: string[]): Promise<T> =>
  runCarillonJson<T>(fixture.stack.home, 'push', 'outcomes', ...args);

/** Four iPhones: APNs accepts the push for one, and these are its responses for the others. */
async function sendToFour(): Promise<{ push: Sent; tokens: string[] }> {
  const { sandbox } = fixture;
  const { tokens, addresses } = await registerIphones(tenant, 4);
  const [, waits = '', bad = '', gone = ''] = addresses;
  const headers = { 'retry-after': String(WAIT_S) };
  await sandbox.scriptPermanently('apns', waits, { as: 'ServiceUnavailable', headers });
  await sandbox.scriptPermanently('apns', bad, { as: 'BadDeviceToken' });
  await sandbox.scriptPermanently('apns', gone, { as: 'Unregistered' });
  return { push: await send(tenant, tokens), tokens };
}

test("while one waits, the outcomes of the others are shown, with the provider's reason", async () => {
  const { push, tokens } = await sendToFour();
  const [taken = '', waiting = '', bad = '', gone = ''] = tokens;
  await untilOutcomeCounts(
    fixture.store,
    push,
    { sent: 1, pending: 1, failed: 1, gone: 1 },
    POLL_OPTIONS,
  );
  expect(await untilFinal(fixture.store, push, taken, POLL_OPTIONS)).toEqual({ outcome: 'sent' });

  const readRecipient = async () => {
    const one = await runJson<ReportedRecipient>(push.id, '--token', waiting);
    return one.detail !== undefined && one;
  };
  const one = await until(readRecipient, POLL_OPTIONS);
  const inMs = Date.parse(one.nextTryAt ?? '') - Date.now();
  expect(one).toMatchObject({ outcome: 'pending', detail: '503 ServiceUnavailable', tries: 1 });
  expect(inMs).toBeGreaterThan((WAIT_S - 60) * 1_000);
  expect(inMs).toBeLessThan(WAIT_S * 1_200);
  expect(await runJson(push.id, '--token', bad)).toEqual({
    token: bad,
    outcome: 'failed',
    reason: 'bad-provider-address',
    detail: '400 BadDeviceToken',
  });

  const { recipients } = await runJson<{ recipients: ReportedRecipient[] }>(push.id);
  const words = new Map(recipients.map(({ token, detail }) => [token, detail]));
  expect(words).toEqual(
    new Map([
      [waiting, '503 ServiceUnavailable'],
      [bad, '400 BadDeviceToken'],
      [gone, '410 Unregistered'],
    ]),
  );
});

test("the provider's reason is kept when all have ended", async () => {
  // The circuit of the other one is open.
  const fresh = await fixture.tenant();
  const { tokens, addresses } = await registerIphones(fresh, 2);
  await fixture.sandbox.scriptPermanently('apns', addresses[1] ?? '', { as: 'BadDeviceToken' });
  const push = await send(fresh, tokens);
  await untilOutcomeCounts(fixture.store, push, { sent: 1, failed: 1 });
  const isFinished = async () =>
    (await fixture.store.deliveryStatus.statusOfPush(push.id))?.state === 'finished';
  await until(isFinished);
  expect(await runJson(push.id, '--token', tokens[1] ?? '')).toMatchObject({
    outcome: 'failed',
    detail: '400 BadDeviceToken',
  });
});
