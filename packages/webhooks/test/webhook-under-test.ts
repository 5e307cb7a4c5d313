import { newObjectId } from '@carillon/core/ids';
import { boxKeyOf, sealBox } from '@carillon/core/sealed-box';
import { parseSealingKeys } from '@carillon/core/sealing';
import { WEBHOOK_EVENTS, type WebhookEvent } from '@carillon/core/webhooks';
import type { TestStore } from '../../../test/support/open-store.ts';
import {
  insertPush,
  newTokens,
  type StoreUnderTest,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { createAddressCircuits } from '../src/address-circuits.ts';
import { parseAllowedHosts } from '../src/allowed-hosts.ts';
import { createWebhookClient } from '../src/client.ts';
import { editWebhook } from '../src/manage-webhooks.ts';
import { reportToWebhook, type WebhookResult } from '../src/report-webhook.ts';
import { newWebhookSecret } from '../src/signature.ts';
import { type Receiver, startReceiver } from './receiver.ts';

const KEYS = parseSealingKeys(`1:${'0'.repeat(64)}`);
/** The app of the pushes that `insertPush` inserts. */
export const APP = 'a'.repeat(24);
/** More than a busy machine needs for a response. */
const DEADLINE_MS = 30_000;

/** A webhook with a receiver of its own, or a shared one. */
export interface WebhookUnderTest {
  id: string;
  secret: string;
  receiver: Receiver;
  /** Events that were reported, each as often as it was sent. */
  reported(): string[];
}

/** Creates a webhook and starts its receiver. */
export async function startWebhook(
  store: TestStore,
  app = newObjectId(),
  events: readonly WebhookEvent[] = WEBHOOK_EVENTS,
): Promise<WebhookUnderTest> {
  const secret = newWebhookSecret();
  return addWebhook(store, app, { events, secret, receiver: await startReceiver(secret) });
}

/** Stores a webhook and returns its id. */
export async function createWebhook(
  store: TestStore,
  app: string,
  {
    url,
    secret,
    events = WEBHOOK_EVENTS,
  }: { url: string; secret: string; events?: readonly WebhookEvent[] },
): Promise<string> {
  const id = newObjectId();
  const isCreated = await store.webhooks.create({
    ...{ _id: id, app, events: [...events], host: '127.0.0.1' },
    address: sealBox(boxKeyOf(KEYS), id, url),
    secret: sealBox(boxKeyOf(KEYS), id, secret),
  });
  if (!isCreated) throw new Error(`the app ${app} has too many webhooks`);
  return id;
}

/** Creates a webhook of a receiver that runs. */
export async function addWebhook(
  store: TestStore,
  app: string,
  {
    secret,
    receiver,
    events = WEBHOOK_EVENTS,
  }: { secret: string; receiver: Receiver; events?: readonly WebhookEvent[] },
): Promise<WebhookUnderTest> {
  const id = await createWebhook(store, app, { url: receiver.url, secret, events });
  const reported = () =>
    receiver.requests
      .filter((one) => one.app === app)
      .flatMap((one) => one.events.map((event) => event.id));
  return { id, secret, receiver, reported };
}

/** Changes the address of a webhook. */
export async function moveWebhook(
  { webhooks }: TestStore,
  app: string,
  id: string,
  url: string,
): Promise<void> {
  await webhooks.putBoxKey(boxKeyOf(KEYS));
  const changed = await editWebhook({ webhooks }, app, id, { address: new URL(url) });
  if (typeof changed === 'string') throw new Error(changed);
}

/** Reports the due work of a webhook once, as a job does, by default without any address known. */
export async function report(
  store: TestStore,
  id: string,
  {
    circuits = createAddressCircuits(() => performance.now(), Math.random),
    deadlineMs = DEADLINE_MS,
    random = Math.random,
    onUnrecorded = (error: unknown): void => {
      throw error;
    },
  } = {},
): Promise<WebhookResult> {
  const client = createWebhookClient({ hosts: parseAllowedHosts('127.0.0.1'), deadlineMs });
  const resources = { isStopping: () => false, onRequest: () => undefined, onUnrecorded };
  try {
    const given = { store, client, circuits, random, keys: KEYS };
    return await reportToWebhook({ ...resources, ...given }, id);
  } finally {
    client.close();
  }
}

/** Ends all delays and leases of a webhook, as if the clock had been moved forward. */
export async function skipDelays(
  { db }: Pick<StoreUnderTest, 'db'>,
  webhook: string,
): Promise<void> {
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

/** Inserts a push that is reported to webhooks. */
export function insertReportedPush(
  database: StoreUnderTest,
  recipients: number,
  webhooks: readonly string[],
): Promise<TestPush> {
  const notify = webhooks.map((w) => ({ w, r: true as const, v: 0 }));
  return insertPush(database, newTokens(recipients), { notify });
}
