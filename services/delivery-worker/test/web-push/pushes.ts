import { randomBytes } from 'node:crypto';
import type { SecretOf } from '@carillon/core/channels';
import webPush from 'web-push';
import type { ProviderPush } from '../../src/deliver/provider.ts';

/** Creates the secret of an app. */
export function createSecret(): SecretOf<'web-push'> {
  return { kind: 'web-push', contact: 'mailto:ops@example.com', ...webPush.generateVAPIDKeys() };
}

/** Creates a push with a time to live of an hour. */
export function createPush(change: Partial<ProviderPush> = {}): ProviderPush {
  return {
    id: randomBytes(12).toString('hex'),
    data: '{"message":"hello"}',
    options: {},
    expiresAt: new Date(Date.now() + 3_600_500),
    nowOnly: false,
    ...change,
  };
}
