import type { TestTenant } from '../api/tenants.ts';
import { send } from '../end-to-end/pushes.ts';
import { readClaim } from '../guarantees/batch-claim.ts';
import { whileFrozen } from '../guarantees/while-frozen.ts';
import type { TestMongo } from '../mongo.ts';
import type { ProviderFixture } from './fixture.ts';
import { untilOutcomeCounts } from './outcomes.ts';
import { registerIphones } from './provider-device-pool.ts';

/** Returns the reply stream of the first of two workers: its name in claims. */
export async function findFirstWorker(
  { stack, store }: Pick<ProviderFixture, 'stack' | 'store'>,
  tenant: TestTenant,
  mongo: TestMongo,
): Promise<string | undefined> {
  const { tokens } = await registerIphones(tenant, 1);
  return whileFrozen(stack, [{ service: 'delivery-worker', index: 1 }], async () => {
    const push = await send(tenant, tokens);
    await untilOutcomeCounts(store, push, { sent: 1 });
    return (await readClaim(mongo, push))?.reply;
  });
}
