import { createTestTenant, type TestTenant } from '../api/tenants.ts';
import type { Stack } from '../stack.ts';

/** Another tenant of the same stack. */
export type Tenant = Pick<TestTenant, 'dev' | 'api'>;

/** Makes another account, without limits, with an app and a key. */
export function createTenant(stack: Pick<Stack, 'home' | 'dev'>): Promise<Tenant> {
  return createTestTenant(stack, { limit: null });
}
