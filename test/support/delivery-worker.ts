import { readFileSync } from 'node:fs';
import { type ServiceProcess, startService } from './operators/service-process.ts';
import type { Stack } from './stack.ts';

/** Starts a delivery-worker beside a stack, for its servers and with its keys of providers' secrets, unless `env` has others. */
export function startDeliveryWorker(
  { dev, home }: Pick<Stack, 'dev' | 'home'>,
  env: Record<string, string>,
): Promise<ServiceProcess> {
  const { credentialKeys } = JSON.parse(readFileSync(`${home}/secrets.json`, 'utf8')) as {
    credentialKeys: string;
  };
  const settings = { MONGODB_URI: dev.mongodb, REDIS_URL: dev.redis };
  return startService('delivery-worker', { ...settings, CREDENTIAL_KEYS: credentialKeys, ...env });
}
