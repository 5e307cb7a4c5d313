import { randomBytes } from 'node:crypto';
import { describeError } from '@carillon/admin/admin-error';
import { z } from 'zod';
import { serviceUnreachable } from '../failure.ts';

/** Timeout of a request to the sandbox, in milliseconds. */
const TIMEOUT_MS = 30_000;
const APNS_TOKEN_BYTES = 32;
const FCM_TOKEN_BYTES = 48;

/** Address of a simulated device at its provider. */
export interface ProviderAddress {
  channel: 'apns' | 'fcm' | 'web-push';
  /** Address in the sandbox's log of requests. */
  to: string;
  /** Fields of the device's registration. */
  registration: Record<string, unknown>;
}

/** Creates the provider address of a new device; undefined for a device without a provider. */
export type MakeAddress = () => Promise<ProviderAddress | undefined>;

const sandboxCredentials = z.object({ apns: z.object({ bundle: z.string() }) });
const subscription = z.object({ endpoint: z.string(), key: z.string(), auth: z.string() });

/**
 * Creates a function that makes provider addresses for devices of a platform, which the sandbox accepts.
 *
 * @param sandbox base URL of its control API
 * @param fcm whether Android devices also have an FCM token, for the fallback
 * @throws Failure when the sandbox can't be reached
 */
export async function createAddressMaker(
  sandbox: string,
  platform: string,
  fcm: boolean,
): Promise<MakeAddress> {
  if (platform === 'ios') {
    const { apns } = sandboxCredentials.parse(await requestSandbox(sandbox, 'GET', '/credentials'));
    return async () => makeAppleAddress(apns.bundle);
  }
  if (platform === 'web') return () => makeWebAddress(sandbox);
  return async () => (fcm ? makeFcmAddress() : undefined);
}

function makeAppleAddress(bundle: string): ProviderAddress {
  const to = randomBytes(APNS_TOKEN_BYTES).toString('hex');
  const registration = { pushToken: to, pushEnvironment: 'development', pushBundle: bundle };
  return { channel: 'apns', to, registration };
}

function makeFcmAddress(): ProviderAddress {
  const to = randomBytes(FCM_TOKEN_BYTES).toString('base64url');
  return { channel: 'fcm', to, registration: { fcmToken: to } };
}

async function makeWebAddress(sandbox: string): Promise<ProviderAddress> {
  const created = subscription.parse(
    await requestSandbox(sandbox, 'POST', '/web-push/subscriptions'),
  );
  return { channel: 'web-push', to: created.endpoint, registration: { subscription: created } };
}

async function requestSandbox(sandbox: string, method: string, path: string): Promise<unknown> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(`${sandbox}${path}`, { method, signal });
    return await response.json();
  } catch (error) {
    throw serviceUnreachable(
      `The sandbox at ${sandbox} can't be reached: ${describeError(error)}.`,
    );
  }
}
