import type { ProviderPush } from '../src/deliver/provider.ts';

export const PUSH_ID = '0123456789abcdef01234567';

/** Creates a push of one field with a time to live of an hour, with changes. */
export function createPush(changes: Partial<ProviderPush> = {}): ProviderPush {
  const expiresAt = new Date(Date.now() + 3_600_000);
  return { id: PUSH_ID, data: '{"n":1}', options: {}, expiresAt, nowOnly: false, ...changes };
}
