import { hash } from 'node:crypto';
import type { AppleEnvironment } from '@carillon/core/channels/apns';
import type { Address } from '../../src/deliver/provider.ts';

/** Creates the address of a device by a name: a device token is 32 bytes in hexadecimal. */
export function createAppleAddress(
  name: string,
  bundle: string,
  environment: AppleEnvironment = 'production',
): Address {
  return { channel: 'apns', address: hash('sha256', name), environment, bundle, since: new Date() };
}
