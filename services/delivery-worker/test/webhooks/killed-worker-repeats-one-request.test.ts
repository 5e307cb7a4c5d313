import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  deliver,
  type StoreUnderTest,
  startStore,
} from '../../../../packages/store/test/store-under-test.ts';
import { until } from '../../../../test/support/until.ts';
import { createWebhookTick } from '../../../scheduler/src/webhooks.ts';
import { DEADLINE_MS } from '../../src/webhooks/client.ts';
import { status } from './receiver.ts';
import {
  insertReportedPush,
  report,
  skipDelays,
  startWebhook,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

const PROGRAM = fileURLToPath(new URL('./reporting-process.ts', import.meta.url));
const KILLS = 5;
const EVENTS = 1_001;

let database: StoreUnderTest;
let webhook: WebhookUnderTest;
beforeAll(async () => {
  database = await startStore();
  webhook = await startWebhook(database.store);
});
afterAll(async () => {
  await webhook?.receiver.stop();
  await database?.stop();
});

/** Reports in a process of its own, and kills it when the receiver has the n-th request since its start. */
async function reportAndKill(n: number): Promise<void> {
  const { receiver, id } = webhook;
  const child = spawn(process.execPath, [PROGRAM, database.uri, id], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const before = receiver.requests.length;
  receiver.respondWith((request, response) => {
    const hasEnough = receiver.requests.length - before >= n;
    if (hasEnough) child.kill('SIGKILL');
    status(200)(request, response);
  });
  await exited;
}

test('every event is reported, and at most those in flight at a kill twice', async () => {
  const ids: string[] = [];
  for (let n = 0; n < KILLS; n += 1) {
    const push = await insertReportedPush(database, EVENTS - 1, [webhook.id]);
    await deliver(database.store, push, {}, { finish: true });
    ids.push(...push.tokens.map((_, at) => `${push.id}.${at}.1`), `${push.id}.finished`);
    await reportAndKill((n % 3) + 1);
    // As at the end of the lease.
    await skipDelays(database, webhook.id);
  }
  webhook.receiver.respondWith(status(200));
  await until(async () => {
    await report(database.store, webhook.id, { deadlineMs: DEADLINE_MS });
    await skipDelays(database, webhook.id);
    return (await database.store.outbox.countPending(webhook.id, 1)) === 0;
  });
  const reported = webhook.reported();
  expect(new Set(reported)).toEqual(new Set(ids));
  expect(reported.length - ids.length).toBeLessThanOrEqual(KILLS * 500);
  expect(webhook.receiver.forged).toBe(0);
  // A repeated request has the id of its body.
  const bodies = Map.groupBy(webhook.receiver.requests, ({ id }) => id);
  for (const requests of bodies.values())
    expect(new Set(requests.map(({ body }) => body)).size).toBe(1);
});

test('the tick finds the webhook by the index, without any job in Redis', async () => {
  const push = await insertReportedPush(database, 1, [webhook.id]);
  await deliver(database.store, push, {}, { finish: true });
  await database.store.webhooks.refresh();
  const added: string[] = [];
  const tick = createWebhookTick(database.store, {
    reportToWebhook: async (id) => void added.push(id),
  });
  expect(await tick()).toBe(1);
  expect(added).toEqual([webhook.id]);
  await report(database.store, webhook.id);
  expect(await tick()).toBe(0);
});
