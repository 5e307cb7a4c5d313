import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones, subscribeIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

/** The number of duplicates does not grow with the push: from 200,000 recipients on it is within a thousandth (guarantee G4). */
const IPHONES = Number(process.env.CARILLON_CROWD ?? 20_000);
const TOPIC = 'all';
const WORKER = 'delivery-worker';
/** Requests in flight to APNs: their outcome is unknown when the connection or the worker is lost. */
const WINDOW = 150;
/** Responses that a batch may have got without saving them, and batches of one app in progress at once. */
const UNSAVED = 25;
const AT_ONCE = 2;
const POLL_OPTIONS = { timeoutMs: 50_000 + IPHONES, everyMs: 200 };
const DEADLINE_MS = POLL_OPTIONS.timeoutMs + 30_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant();
  const { tokens } = await registerIphones(tenant, IPHONES);
  await subscribeIphones(tenant, TOPIC, tokens);
}, DEADLINE_MS);
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

test(
  'when its connection is cut once, only requests in flight may be repeated',
  async () => {
    await fixture.sandbox.setFaults('apns', { dropEvery: Math.floor(IPHONES * 0.75) });
    const push = await send(tenant, `/topics/${TOPIC}`);
    await untilOutcomeCounts(fixture.store, push, { sent: IPHONES }, POLL_OPTIONS);
    const { byChannel, duplicates } = await fixture.sandbox.counts();
    expect(byChannel.apns?.connections).toBeGreaterThan(1);
    expect(duplicates).toBeLessThanOrEqual(WINDOW);
  },
  DEADLINE_MS,
);

test(
  'when its worker is killed once, only those and unsaved outcomes may be repeated',
  async () => {
    const { sandbox, stack, store } = fixture;
    const requests = async () => (await sandbox.counts()).byChannel.apns?.requests ?? 0;
    const push = await send(tenant, `/topics/${TOPIC}`);
    const isHalfSent = async () => (await requests()) > IPHONES / 2;
    await until(isHalfSent, { ...POLL_OPTIONS, everyMs: 20, what: 'half of it is sent' });
    const killed = stack.kill(WORKER, 'SIGKILL');
    expect(await requests()).toBeLessThan(IPHONES);
    await stack.waitForRestart(WORKER, killed);
    await untilOutcomeCounts(store, push, { sent: IPHONES }, POLL_OPTIONS);
    const { duplicates } = await sandbox.counts();
    expect(duplicates).toBeLessThanOrEqual(WINDOW + AT_ONCE * UNSAVED);
  },
  DEADLINE_MS,
);
