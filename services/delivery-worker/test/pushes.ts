import { hash } from 'node:crypto';
import type { AppleEnvironment } from '@carillon/core/channels/apns';
import type { Address, ProviderPush } from '../src/deliver/provider.ts';

export const PUSH_ID = '0123456789abcdef01234567';

/** Creates a push of one field with a time to live of an hour, with changes. */
export function createPush(changes: Partial<ProviderPush> = {}): ProviderPush {
  // Not a whole number of seconds: it is rounded down.
  const expiresAt = new Date(Date.now() + 3_600_500);
  return { id: PUSH_ID, data: '{"n":1}', options: {}, expiresAt, nowOnly: false, ...changes };
}

/** Creates the address of an iPhone by a name: a device token is 32 bytes in hexadecimal. */
export function createAppleAddress(name: string, environment: AppleEnvironment = 'production') {
  const address = hash('sha256', name);
  const bundle = 'com.example.carillon';
  return { channel: 'apns', address, environment, bundle, since: new Date() } satisfies Address;
}

/** Creates the address of an Android device. */
export function createFcmAddress(address: string) {
  return { channel: 'fcm', address, since: new Date() } satisfies Address;
}
