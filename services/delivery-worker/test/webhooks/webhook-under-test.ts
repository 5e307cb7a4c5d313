import { newObjectId } from '@carillon/core/ids';
import { boxKeyOf, sealBox } from '@carillon/core/sealed-box';
import { parseSealingKeys } from '@carillon/core/sealing';
import { newWebhookSecret } from '@carillon/core/webhook-signature';
import { WEBHOOK_EVENTS, type WebhookEvent } from '@carillon/core/webhooks';
import type { Store } from '@carillon/store/store';
import {
  insertPush,
  newTokens,
  type StoreUnderTest,
  type TestPush,
} from '../../../../packages/store/test/store-under-test.ts';
import { parseAllowedHosts } from '../../src/webhooks/allowed-hosts.ts';
import { createWebhookClient, type WebhookClient } from '../../src/webhooks/client.ts';
import { reportToWebhook, type WebhookResult } from '../../src/webhooks/report-webhook.ts';
import { type Receiver, startReceiver } from './receiver.ts';

const KEYS = parseSealingKeys(`1:${'0'.repeat(64)}`);
/** The app of the pushes that `insertPush` inserts. */
export const APP = 'a'.repeat(24);
const DEADLINE_MS = 400;

/** A webhook with a receiver of its own. */
export interface WebhookUnderTest {
  id: string;
  secret: string;
  receiver: Receiver;
  /** Events that were reported, each as often as it was told. */
  reported(): string[];
}

/** Creates a client that reaches receivers on this machine. */
function createClient(): WebhookClient {
  return createWebhookClient({ hosts: parseAllowedHosts('127.0.0.1'), deadlineMs: DEADLINE_MS });
}

/** Creates a webhook and starts its receiver. */
export async function startWebhook(
  store: Store,
  app = newObjectId(),
  events: readonly WebhookEvent[] = WEBHOOK_EVENTS,
): Promise<WebhookUnderTest> {
  const id = newObjectId();
  const secret = newWebhookSecret();
  const receiver = await startReceiver(secret);
  await store.webhooks.create({
    ...{ _id: id, app, events: [...events], host: '127.0.0.1' },
    address: sealBox(boxKeyOf(KEYS), id, receiver.url),
    secret: sealBox(boxKeyOf(KEYS), id, secret),
  });
  const reported = () => receiver.requests.flatMap((one) => one.events.map((event) => event.id));
  return { id, secret, receiver, reported };
}

/** Reports once what is due for a webhook, as a job does. */
export async function report(store: Store, id: string): Promise<WebhookResult> {
  const client = createClient();
  const resources = { random: Math.random, isStopping: () => false, onRequest: () => undefined };
  try {
    return await reportToWebhook({ ...resources, store, client, keys: KEYS }, id);
  } finally {
    client.close();
  }
}

/** Lets all delays and leases of a webhook end, as if the clock had been put forward. */
export async function skipDelays({ db }: StoreUnderTest, webhook: string): Promise<void> {
  const past = new Date(Date.now() - 60_000);
  await db
    .collection<{ _id: string }>('webhooks')
    .updateOne({ _id: webhook }, { $unset: { retryAt: true } });
  for (const collection of ['pushes', 'batches', 'devices'])
    await db
      .collection(collection)
      .updateMany(
        { notify: { $elemMatch: { w: webhook, at: { $exists: true } } } },
        { $set: { 'notify.$[one].at': past, 'notify.$[one].until': past } },
        { arrayFilters: [{ 'one.w': webhook, 'one.at': { $exists: true } }] },
      );
}

/** Inserts a push that webhooks are told of. */
export function insertReportedPush(
  database: StoreUnderTest,
  recipients: number,
  webhooks: readonly string[],
): Promise<TestPush> {
  const notify = webhooks.map((w) => ({ w, r: true as const, v: 0 }));
  return insertPush(database, newTokens(recipients), { notify });
}
