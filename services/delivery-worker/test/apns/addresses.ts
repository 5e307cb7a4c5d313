import { hash } from 'node:crypto';
import type { AppleEnvironment } from '@carillon/store/documents';
import type { Address } from '../../src/deliver/provider.ts';

/** The address of a device by any name: a device token is 32 bytes in hexadecimal. */
export function appleAddress(
  name: string,
  bundle: string,
  environment: AppleEnvironment = 'production',
): Address {
  return { channel: 'apns', address: hash('sha256', name), environment, bundle, since: new Date() };
}
