import { randomBytes } from 'node:crypto';
import type { Credentials } from '../register-device.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Sandbox } from './sandbox.ts';

/** A device that a provider reaches. */
export interface ProviderDevice extends Credentials {
  /** Provider token, or endpoint. */
  address: string;
}

type Where = Pick<Dev, 'api' | 'app'>;

/** Registers a device as its SDK does. @throws when it is refused */
async function register({ api, app }: Where, fields: object): Promise<Credentials> {
  const answer = await fetch(new URL('/register', api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ appId: app, ...fields }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`register: ${answer.status} ${text}`);
  return JSON.parse(text) as Credentials;
}

/** An iPhone with a development build, unless said otherwise. */
export async function registerIphone(
  dev: Where,
  {
    pushToken = randomBytes(32).toString('hex'),
    pushEnvironment = 'development',
    pushBundle = 'com.example.carillon',
  } = {},
): Promise<ProviderDevice> {
  const fields = { platform: 'ios', pushToken, pushEnvironment, pushBundle };
  return { ...(await register(dev, fields)), address: pushToken };
}

/** An Android device that FCM reaches too. */
export async function registerAndroid(dev: Where): Promise<ProviderDevice> {
  const fcmToken = `fcm-${randomBytes(20).toString('hex')}`;
  return { ...(await register(dev, { platform: 'android', fcmToken })), address: fcmToken };
}

/** A browser whose keys the sandbox holds. */
export async function registerSimulatedBrowser(
  dev: Where,
  sandbox: Pick<Sandbox, 'subscribe'>,
): Promise<ProviderDevice> {
  const subscription = await sandbox.subscribe();
  const made = await register(dev, { platform: 'web', subscription });
  return { ...made, address: subscription.endpoint };
}
