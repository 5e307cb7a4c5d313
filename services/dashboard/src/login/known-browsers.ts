import { randomBytes } from 'node:crypto';
import { type ConsoleAddress, formatCookie } from '../http/address.ts';
import type { OpenRequest } from '../http/open-route.ts';
import { createTextSigner } from './signed-text.ts';

const COOKIE = 'browser';
const MAX_AGE_SECONDS = 180 * 86_400;
const KEY_BYTES = 12;

/**
 * Recognizes browsers that an operator has logged in with, by a signed cookie, so that wrong passwords of others do not
 * slow them. The cookie gives no access.
 */
export function createKnownBrowsers(secret: string, address: ConsoleAddress) {
  const signer = createTextSigner(secret, 'browser');
  return {
    /** Returns the key of a browser that the operator has logged in with. */
    find(
      { cookies, host }: Pick<OpenRequest<unknown>, 'cookies' | 'host'>,
      operator: string | undefined,
    ): string | undefined {
      const text = signer.verify(cookies.get(address.cookieName(COOKIE, host)));
      const [owner, key] = text?.split(' ') ?? [];
      return operator !== undefined && owner === operator ? key : undefined;
    },
    /** Returns the cookie for a browser that an operator has logged in with. */
    formatCookie(host: string, operator: string): string {
      const key = randomBytes(KEY_BYTES).toString('hex');
      return formatCookie(address.cookieName(COOKIE, host), signer.sign(`${operator} ${key}`), {
        maxAgeSeconds: MAX_AGE_SECONDS,
        isSecure: address.isSecure,
      });
    },
  };
}
