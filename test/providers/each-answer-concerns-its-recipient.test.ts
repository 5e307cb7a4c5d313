import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SEVERAL } from '../../packages/core/src/circuit.ts';
import { REFUSED_ROUND_MS } from '../../packages/core/src/troubled-recipients.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { readAnswersTable } from '../support/providers/answers-table.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import {
  type AppWithOneBadDevice,
  createAppWithOneBadDevice,
  untilAccepted,
} from '../support/providers/one-bad-recipient.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { registerFor } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const GOOD = 299;
/** A push every two seconds for a minute and a half, longer than any circuit is open. */
const ROUNDS = 45;
const ROUND_MS = 2_000;
/** Below the minute for which one recipient's answer could stop others. */
const SOON_MS = REFUSED_ROUND_MS / 2;
/** Until a refused recipient has failed: its rounds, and some until due batches are claimed. */
const FAILS_WITHIN_MS = 6 * REFUSED_ROUND_MS;
const REVOKED = 20;
const CHANNELS = ['apns', 'fcm', 'web-push'] as const;
const REFUSAL = { status: 403, body: '' };

/** Answers by which a recipient waits, or which concern more than it if several get them. */
const ANSWERS = readAnswersTable().filter(
  ({ http, effect }) => http !== undefined && ['deferred', 'refused'].includes(effect),
);

let fixture: ProviderFixture;
beforeAll(async () => {
  // A recipient's rounds are counted by each worker.
  fixture = await openProviderFixture({ deliveryWorkers: 1 });
});
afterAll(() => fixture?.close());

const requestsTo = async ({ id }: Sent, address: string) =>
  (await fixture.sandbox.received(id)).filter(({ to }) => to === address);

test(
  'one bad recipient of 300, and one that gets a push of its own, delay no other',
  async () => {
    const apps: (AppWithOneBadDevice & { ownPush: Sent; sentAt: number })[] = [];
    for (const documented of ANSWERS) {
      const app = await createAppWithOneBadDevice(fixture, documented, GOOD);
      // The worker's first request with the credential: nothing was accepted before.
      const sentAt = Date.now();
      apps.push({ ...app, ownPush: await send(app.tenant, app.bad.token), sentAt });
      const push = await send(app.tenant, [app.bad.token, ...app.good.tokens]);
      await untilAccepted(fixture, push, app.good.addresses);
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      const begun = performance.now();
      const sendNext = async ({ tenant, good }: AppWithOneBadDevice) => {
        const push = await send(tenant, good.tokens[round] ?? '');
        await untilAccepted(fixture, push, [good.addresses[round] ?? '']);
      };
      await Promise.all(apps.map(sendNext));
      await sleep(Math.max(0, ROUND_MS - (performance.now() - begun)));
    }
    for (const { documented, bad, ownPush, sentAt } of apps) {
      // In each of two rounds one, and once more with a new token or signature.
      const end = sentAt + 2 * REFUSED_ROUND_MS;
      const requests = (await requestsTo(ownPush, bad.address)).filter(({ at }) => at < end);
      expect([documented.answer, requests.length <= 4]).toEqual([documented.answer, true]);
    }

    // Those that are refused alone fail, with the provider's words; all this time others are sent.
    const ends = apps.map(async ({ documented, tenant, bad: { token }, good, ownPush }) => {
      if (documented.effect !== 'refused') return;
      const path = `/pushes/${ownPush.id}/recipients/${token}`;
      const hasFailed = async () => {
        await send(tenant, good.tokens[0] ?? '');
        const { json } = await tenant.api<{ recipient: Record<string, string> }>('GET', path);
        return json.recipient.outcome === 'failed' && json.recipient;
      };
      const pollOptions = { timeoutMs: FAILS_WITHIN_MS, everyMs: ROUND_MS, what: path };
      const { reason, detail } = await until(hasFailed, pollOptions);
      expect(reason).toBe('rejected-by-provider');
      expect(detail).toMatch(/^40[134]/);
    });
    await Promise.all(ends);
  },
  FAILS_WITHIN_MS + 400_000,
);

test(
  'a credential that is refused for all gets a handful of requests, then one a round',
  () => Promise.all(CHANNELS.map(expectFewRequests)).then(() => undefined),
  5 * REFUSED_ROUND_MS,
);

async function expectFewRequests(channel: (typeof CHANNELS)[number]): Promise<void> {
  const { sandbox, store } = fixture;
  const tenant = await fixture.tenant({ fcm: 0 });
  const { tokens, addresses } = await registerFor(channel, tenant, sandbox, REVOKED);
  const [first = '', ...others] = tokens;
  await untilAccepted(fixture, await send(tenant, first), addresses.slice(0, 1));
  for (const address of addresses) await sandbox.scriptPermanently(channel, address, REFUSAL);
  const fields = { time_to_live: 300 };
  const pushes: Sent[] = [];
  for (const token of others) {
    pushes.push(await send(tenant, token, fields));
    await sleep(200);
  }
  const countRequests = async () => {
    const received = await Promise.all(pushes.map(({ id }) => sandbox.received(id)));
    return received.flat().length;
  };
  await until(async () => (await countRequests()) >= SEVERAL);
  await sleep(REFUSED_ROUND_MS / 2);
  // Some more were in flight when the last answer came that opens the circuit.
  const firstRequests = await countRequests();
  expect(firstRequests).toBeLessThanOrEqual(2 * SEVERAL);
  await until(async () => (await countRequests()) > firstRequests, { timeoutMs: REFUSED_ROUND_MS });
  await sleep(REFUSED_ROUND_MS / 2);
  // A probe; Web Push repeats it once with a new signature if the old one may be the cause.
  expect(await countRequests()).toBeLessThanOrEqual(firstRequests + 2);

  for (const address of addresses) await sandbox.script(channel, address, [{}]);
  const within = { timeoutMs: REFUSED_ROUND_MS + SOON_MS };
  await Promise.all(
    pushes.map((push, index) => untilFinal(store, push, others[index] ?? '', within)),
  );
}
