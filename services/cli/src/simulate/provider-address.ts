import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { reasonOf, unreachable } from '../failure.ts';

const DEADLINE_MS = 30_000;
const APNS_TOKEN_BYTES = 32;
const FCM_TOKEN_BYTES = 48;

/** How a provider knows a simulated device. */
export interface ProviderAddress {
  channel: 'apns' | 'fcm' | 'web-push';
  /** What the sandbox shows it by. */
  to: string;
  /** What the device says of it when it registers. */
  registration: Record<string, unknown>;
}

/** Makes the provider's address for one new device; undefined where it has none. */
export type MakeAddress = () => Promise<ProviderAddress | undefined>;

const credentials = z.object({ apns: z.object({ bundle: z.string() }) });
const subscription = z.object({ endpoint: z.string(), key: z.string(), auth: z.string() });

/**
 * How devices of a platform get their addresses from the sandbox.
 *
 * @param sandbox base URL of its control API
 * @param fcm whether Android devices have an address too, for the fallback
 * @throws Failure when the sandbox can't be reached
 */
export async function addressMaker(
  sandbox: string,
  platform: string,
  fcm: boolean,
): Promise<MakeAddress> {
  if (platform === 'ios') {
    const { apns } = credentials.parse(await ask(sandbox, 'GET', '/credentials'));
    return async () => appleAddress(apns.bundle);
  }
  if (platform === 'web') return () => webAddress(sandbox);
  return async () => (fcm ? fcmAddress() : undefined);
}

function appleAddress(bundle: string): ProviderAddress {
  const to = randomBytes(APNS_TOKEN_BYTES).toString('hex');
  const registration = { pushToken: to, pushEnvironment: 'development', pushBundle: bundle };
  return { channel: 'apns', to, registration };
}

function fcmAddress(): ProviderAddress {
  const to = randomBytes(FCM_TOKEN_BYTES).toString('base64url');
  return { channel: 'fcm', to, registration: { fcmToken: to } };
}

async function webAddress(sandbox: string): Promise<ProviderAddress> {
  const made = subscription.parse(await ask(sandbox, 'POST', '/web-push/subscriptions'));
  return { channel: 'web-push', to: made.endpoint, registration: { subscription: made } };
}

async function ask(sandbox: string, method: string, path: string): Promise<unknown> {
  try {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const answer = await fetch(`${sandbox}${path}`, { method, signal });
    return await answer.json();
  } catch (error) {
    throw unreachable(`The sandbox at ${sandbox} can't be reached: ${reasonOf(error)}.`);
  }
}
