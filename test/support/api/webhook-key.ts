import { boxKeyOf } from '../../../packages/core/src/sealed-box.ts';
import { parseSealingKeys } from '../../../packages/core/src/sealing.ts';
import type { Stack } from '../stack.ts';
import { withStore } from './tenants.ts';

/** Stores the public key that the API seals webhooks with, as delivery workers do: a stack of APIs only has none. */
export async function storeWebhookKey(stack: Stack): Promise<void> {
  const key = boxKeyOf(parseSealingKeys(`1:${'0'.repeat(64)}`));
  await withStore(stack, ({ webhooks }) => webhooks.putBoxKey(key));
}
