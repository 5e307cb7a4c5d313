import { randomBytes } from 'node:crypto';
import { createMqttDevice } from '../mqtt-device.ts';
import type { Credentials } from '../register-device.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Sandbox } from './sandbox.ts';

/** A device that a provider reaches. */
export interface ProviderDevice extends Credentials {
  /** Provider token, or endpoint. */
  address: string;
}

type AppAddress = Pick<Dev, 'api' | 'app'>;

/** Registers a device as its SDK does. @throws when it is refused */
async function register({ api, app }: AppAddress, fields: object): Promise<Credentials> {
  const response = await fetch(new URL('/register', api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ appId: app, ...fields }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`register: ${response.status} ${text}`);
  return JSON.parse(text) as Credentials;
}

/** An iPhone with a development build. */
export async function registerIphone(dev: AppAddress): Promise<ProviderDevice> {
  const pushToken = randomBytes(32).toString('hex');
  const app = { pushEnvironment: 'development', pushBundle: 'com.example.carillon' };
  return { ...(await register(dev, { platform: 'ios', pushToken, ...app })), address: pushToken };
}

/** An Android device that has connected over MQTT once and is offline now; FCM is its fallback. */
export async function registerAndroid(
  dev: AppAddress & Pick<Dev, 'mqtt'>,
): Promise<ProviderDevice> {
  const device = await registerAndroidByFcm(dev);
  const connection = createMqttDevice({ url: dev.mqtt, ...device });
  await connection.connect();
  await connection.disconnect();
  return device;
}

/** An Android phone that never connects over MQTT: FCM alone reaches it, if the app uses FCM. */
export async function registerAndroidByFcm(
  dev: AppAddress,
  fcmToken = `fcm-${randomBytes(20).toString('hex')}`,
): Promise<ProviderDevice> {
  return { ...(await register(dev, { platform: 'android', fcmToken })), address: fcmToken };
}

/** A browser whose keys the sandbox holds. @param publicKey as of `Sandbox.subscribe` */
export async function registerSimulatedBrowser(
  dev: AppAddress,
  sandbox: Pick<Sandbox, 'subscribe'>,
  publicKey?: string,
): Promise<ProviderDevice> {
  const subscription = await sandbox.subscribe(publicKey);
  const made = await register(dev, { platform: 'web', subscription });
  return { ...made, address: subscription.endpoint };
}
