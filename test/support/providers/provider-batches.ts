import type { Collection } from 'mongodb';
import { fallbackBatchId } from '../../../packages/core/src/ids.ts';
import type { BatchHolder } from '../../../packages/store/src/batch-holders.ts';
import type { TestTenant } from '../api/tenants.ts';
import type { TestMongo } from '../mongo.ts';
import type { TestStore } from '../open-store.ts';
import type { Stack } from '../stack.ts';
import { untilOutcomeCounts } from './outcomes.ts';
import type { ProviderDevicePool, ProviderWay } from './provider-device-pool.ts';

/** Returns the settings with which a worker reaches the sandbox's addresses of a way. */
export function settingsFor(
  way: ProviderWay,
  { home }: Pick<Stack, 'home'>,
  { addresses }: Pick<ProviderDevicePool, 'addresses'>,
): Record<string, string> {
  if (way !== 'web-push') return {};
  const hosts = new URL(addresses[0] ?? '').host;
  return { WEB_PUSH_HOSTS: hosts, WEB_PUSH_CA_FILE: `${home}/sandbox/ca.pem` };
}

/** Returns the id of a push's batch for a provider, if it has one. */
export function providerBatchId(way: ProviderWay, { id }: { id: string }): string {
  return way === 'fallback' ? fallbackBatchId(id) : id;
}

/** Returns the collection in which {@link providerBatchId} is. */
export function providerBatchesOf(
  way: ProviderWay,
  { db }: Pick<TestMongo, 'db'>,
): Collection<BatchHolder> {
  return db.collection(way === 'fallback' ? 'batches' : 'pushes');
}

/**
 * Waits until a push to devices of one way, whose batch is closed, has ended with these outcomes. With a fallback it is
 * deleted first, and recipients that have failed count as deleted: all are pending in their inbox, and the outcome of a
 * fallback counts when the push ends.
 */
export async function untilProviderCounts(
  way: ProviderWay,
  tenant: TestTenant,
  store: Pick<TestStore, 'deliveryStatus'>,
  push: { id: string },
  { sent, failed }: { sent: number; failed: number },
): Promise<void> {
  if (way === 'fallback') {
    const { status, text } = await tenant.api('DELETE', `/pushes/${push.id}`);
    if (status !== 200) throw new Error(`deletion of ${push.id}: ${status} ${text}`);
  }
  await untilOutcomeCounts(store, push, {
    ...(sent > 0 && { sent }),
    ...(failed > 0 && { [way === 'fallback' ? 'deleted' : 'failed']: failed }),
  });
}
