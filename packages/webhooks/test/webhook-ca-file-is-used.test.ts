import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newObjectId } from '@carillon/core/ids';
import { readEnv } from '@carillon/runtime/env';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { environment } from '../../../services/delivery-worker/src/environment.ts';
import { openWebhooks } from '../../../services/delivery-worker/src/open-webhooks.ts';
import {
  type PushService,
  startPushService,
} from '../../../services/delivery-worker/test/web-push/push-service.ts';
import { deliver, type StoreUnderTest, startStore } from '../../store/test/store-under-test.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { createWebhook, insertReportedPush, skipDelays } from './webhook-under-test.ts';

let database: StoreUnderTest;
let service: PushService;
let folder: string;
const releases: (() => Promise<void> | void)[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-ca-'));
  [database, service] = await Promise.all([startStore(), startPushService()]);
  await writeFile(join(folder, 'ca.pem'), service.ca);
});
afterAll(async () => {
  for (const release of releases) await release();
  await service?.stop();
  await database?.stop();
  await rm(folder, { recursive: true, force: true });
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
