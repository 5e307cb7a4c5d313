import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { gatherIphones, subscribeIphones } from '../support/providers/crowd.ts';
import { untilCounts } from '../support/providers/outcomes.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { send } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

/** What may come twice doesn't grow with the push: from 200,000 on it is within a thousandth (guarantee G4). */
const IPHONES = Number(process.env.CARILLON_CROWD ?? 20_000);
const TOPIC = 'all';
const WORKER = 'delivery-worker';
/** Requests on a line to APNs at once: nobody knows what became of them when the link or the worker is lost. */
const WINDOW = 150;
/** Answers that a batch may have had without keeping them, and batches of one app that are worked at once. */
const UNSAVED = 25;
const AT_ONCE = 2;
const PATIENCE = { timeoutMs: 50_000 + IPHONES, everyMs: 200 };
const DEADLINE_MS = PATIENCE.timeoutMs + 30_000;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  const { tokens } = await gatherIphones(tenant, IPHONES);
  await subscribeIphones(tenant, TOPIC, tokens);
}, DEADLINE_MS);
afterEach(() => scene?.sandbox.reset());
afterAll(() => scene?.close());

test(
  'when its link is cut once, only what was under way may come twice',
  async () => {
    await scene.sandbox.behave('apns', { dropEvery: Math.floor(IPHONES * 0.75) });
    const push = await send(tenant, `/topics/${TOPIC}`);
    await untilCounts(scene.store, push, { sent: IPHONES }, PATIENCE);
    const { byChannel, doubles } = await scene.sandbox.counts();
    expect(byChannel.apns?.connections).toBeGreaterThan(1);
    expect(doubles).toBeLessThanOrEqual(WINDOW);
  },
  DEADLINE_MS,
);

test(
  'when its worker is killed once, only that and what was not kept yet may come twice',
  async () => {
    const { sandbox, stack, store } = scene;
    const requests = async () => (await sandbox.counts()).byChannel.apns?.requests ?? 0;
    const push = await send(tenant, `/topics/${TOPIC}`);
    const isHalfSent = async () => (await requests()) > IPHONES / 2;
    await until(isHalfSent, { ...PATIENCE, everyMs: 20, what: 'half of it is sent' });
    const killed = stack.kill(WORKER, 'SIGKILL');
    expect(await requests()).toBeLessThan(IPHONES);
    await stack.waitForRestart(WORKER, killed);
    await untilCounts(store, push, { sent: IPHONES }, PATIENCE);
    const { doubles } = await sandbox.counts();
    expect(doubles).toBeLessThanOrEqual(WINDOW + AT_ONCE * UNSAVED);
  },
  DEADLINE_MS,
);
