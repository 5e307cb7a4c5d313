import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SEVERAL } from '@carillon/core/circuit';
import { newObjectId } from '@carillon/core/ids';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { parseSealingKeys } from '@carillon/core/sealing';
import { WEBHOOK_LIMITS } from '@carillon/core/webhooks';
import { readEnv } from '@carillon/runtime/env';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { environment } from '../../../services/delivery-worker/src/environment.ts';
import { openWebhooks } from '../../../services/delivery-worker/src/open-webhooks.ts';
import { startPushService } from '../../../services/delivery-worker/test/web-push/push-service.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { until } from '../../../test/support/until.ts';
import {
  deliver,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { createAddressCircuits } from '../src/address-circuits.ts';
import { addWebhook as addToApp, editWebhook } from '../src/manage-webhooks.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { type Receiver, type Responder, startReceiver, status } from './receiver.ts';
import {
  addWebhook,
  createWebhook,
  insertReportedPush,
  moveWebhook,
  report,
  skipDelays,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

let database: StoreUnderTest;
const releases: (() => Promise<void> | void)[] = [];
beforeAll(async () => {
  database = await startStore();
});
afterAll(async () => {
  for (const release of releases.reverse()) await release();
  await database?.stop();
});

describe('an app has five webhooks:', () => {
  const ADDRESS = new URL('https://backend.example.com/hook');
  const CALLS = 20;
  let stores: TestStore[];
  beforeAll(async () => {
    // Two processes: a lock in memory has no effect.
    const connect = () => openStore({ uri: database.uri, appName: 'test', timeoutMs: 30_000 });
    stores = [await connect(), await connect()];
    releases.push(...stores.map(({ close }) => close));
    await database.store.webhooks.putBoxKey(boxKeyOf(parseSealingKeys(`1:${'0'.repeat(64)}`)));
  });

  async function addAtOnce(app: string): Promise<{ added: number; refused: number }> {
    const adding = Array.from({ length: CALLS }, (_, n) =>
      addToApp(stores[n % 2] ?? database.store, app, ADDRESS),
    );
    const results = await Promise.all(adding);
    return {
      added: results.filter((result) => typeof result !== 'string').length,
      refused: results.filter((result) => result === 'limit').length,
    };
  }

  test('at most five of concurrent additions succeed', async () => {
    const [app, other] = [newObjectId(), newObjectId()];
    const all = { added: WEBHOOK_LIMITS.perApp, refused: CALLS - WEBHOOK_LIMITS.perApp };
    expect(await Promise.all([app, other].map(addAtOnce))).toEqual([all, all]);
    expect(await database.store.webhooks.list(app)).toHaveLength(WEBHOOK_LIMITS.perApp);
  });

  test('a removed webhook frees its slot, whichever it is', async () => {
    const app = newObjectId();
    await addAtOnce(app);
    for (let n = 0; n < WEBHOOK_LIMITS.perApp; n += 1) {
      const webhooks = await database.store.webhooks.list(app);
      await database.store.webhooks.remove(app, webhooks[n]?._id ?? '');
      expect(await addAtOnce(app)).toEqual({ added: 1, refused: CALLS - 1 });
    }
  });
});

describe('a webhook that is changed', () => {
  const CUT: Responder = (_request, response) => response.socket?.destroy();
  /** Longer than any test: a request hangs until the test responds. */
  const LONG_MS = 120_000;
  const FAILURES = 6;
  let app: string;
  let webhook: WebhookUnderTest;
  let previous: Receiver;
  let next: Receiver;
  beforeEach(async () => {
    const secret = newWebhookSecret();
    [previous, next] = [await startReceiver(secret), await startReceiver(secret)];
    releases.push(previous.stop, next.stop);
    app = newObjectId();
    webhook = await addWebhook(database.store, app, { secret, receiver: previous });
  });

  /** Delivers a push to two devices, which is to be reported to the webhook. */
  async function deliverReported(): Promise<TestPush> {
    const push = await insertReportedPush(database, 2, [webhook.id]);
    await deliver(database.store, push, {}, { finish: true });
    return push;
  }

  const idsOf = (...pushes: TestPush[]) =>
    pushes.flatMap(({ id }) => [`${id}.0.1`, `${id}.1.1`, `${id}.finished`]).sort();
  const reportedTo = ({ requests }: Receiver) =>
    requests.flatMap(({ events }) => events.map(({ id }) => id)).sort();
  const move = () => moveWebhook(database.store, app, webhook.id, next.url);

  test('reports to the new address without waiting for the previous one, and nothing that was reported before', async () => {
    const circuits = createAddressCircuits(
      () => 0,
      () => 1,
    );
    await deliverReported();
    await report(database.store, webhook.id, { circuits });
    previous.respondWith(CUT);
    const failed = await deliverReported();
    // After some failures the delay of the failed request is longer than the test.
    for (let n = 0; n < FAILURES; n += 1) {
      await skipDelays(database, webhook.id);
      await report(database.store, webhook.id, { random: () => 1 });
    }
    for (let n = 0; n < SEVERAL; n += 1) {
      const permit = circuits.acquire(previous.url, { app, _id: `another ${n}` });
      if (permit.kind === 'permit') permit.end({ error: 'ECONNRESET' });
    }
    const waiting = await deliverReported();
    expect(await report(database.store, webhook.id, { circuits })).toMatchObject({
      end: 'waiting',
    });
    await move();
    await report(database.store, webhook.id, { circuits });
    expect(reportedTo(next)).toEqual(idsOf(waiting));
    // The events of a failed request wait for its own retry.
    await skipDelays(database, webhook.id);
    await report(database.store, webhook.id, { circuits });
    expect(reportedTo(next)).toEqual(idsOf(failed, waiting));
    expect(next.forged).toBe(0);
  });

  test.each([
    ['410', status(410)],
    ['500', status(500)],
    ['no response', CUT],
  ])('ignores the end of a request to the previous address (%s)', async (_what, responder) => {
    let respond = (): void => undefined;
    previous.respondWith((request, response) => {
      respond = () => responder(request, response);
    });
    const push = await deliverReported();
    const reporting = report(database.store, webhook.id, { deadlineMs: LONG_MS });
    await until(() => previous.requests.length === 1);
    await move();
    const moved = await database.store.webhooks.find(webhook.id);
    respond();
    await reporting;
    expect(await database.store.webhooks.find(webhook.id)).toEqual(moved);
    await skipDelays(database, webhook.id);
    await report(database.store, webhook.id);
    expect(reportedTo(next)).toEqual(idsOf(push));
  });

  test('reports the events that it has now, also of earlier pushes', async () => {
    const push = await deliverReported();
    const changed = await editWebhook(database.store, app, webhook.id, {
      events: ['push.finished'],
    });
    expect(changed).toMatchObject({ id: webhook.id, events: ['push.finished'] });
    await report(database.store, webhook.id);
    expect(reportedTo(previous)).toEqual([`${push.id}.finished`]);
    // Events that it did not have at the time are not reported later.
    await editWebhook(database.store, app, webhook.id, { events: ['recipient.delivered'] });
    const later = await deliverReported();
    await report(database.store, webhook.id);
    expect(reportedTo(previous).slice(1)).toEqual([`${later.id}.0.1`, `${later.id}.1.1`]);
  });
});

/** Opens webhooks as a delivery worker with these settings does. */
async function open(settings: NodeJS.ProcessEnv) {
  const env = readEnv(environment, {
    ...{ MONGODB_URI: database.uri, REDIS_URL: 'redis://127.0.0.1:1', QUEUES: 'webhook' },
    ...{ CREDENTIAL_KEYS: `1:${'0'.repeat(64)}`, WEBHOOK_HOSTS: '127.0.0.1', ...settings },
  });
  const context = {
    ...{ log: createLogger('webhooks', 'fatal'), metrics: createMetrics() },
    release: (_name: string, release: () => Promise<void> | void) => void releases.push(release),
  };
  const report = await openWebhooks(env, context, database.store, () => false);
  if (report === undefined) throw new Error('the process takes no jobs of webhooks');
  return report;
}

test('a receiver with a certificate of a private authority gets events only with WEBHOOK_CA_FILE', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-ca-'));
  const service = await startPushService();
  releases.push(service.stop, () => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, 'ca.pem'), service.ca);
  const id = await createWebhook(database.store, newObjectId(), {
    ...{ url: `https://${service.host}/hook`, secret: newWebhookSecret() },
  });
  const push = await insertReportedPush(database, 1, [id]);
  await deliver(database.store, push, {}, { finish: true });
  await (await open({}))(id);
  expect(service.received).toEqual([]);
  expect(await database.store.webhooks.find(id)).toMatchObject({
    last: { error: expect.stringMatching(/CERT|LEAF/) },
  });
  await skipDelays(database, id);
  await (await open({ WEBHOOK_CA_FILE: join(folder, 'ca.pem') }))(id);
  expect(service.received.map(({ path }) => path)).toEqual(['/hook']);
  const [request] = service.received;
  const { events } = JSON.parse(request?.body.toString() ?? '{}');
  expect(events).toHaveLength(2);
});
