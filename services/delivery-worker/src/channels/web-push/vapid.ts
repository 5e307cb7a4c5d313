import type { SecretOf } from '@carillon/core/channels';
import { LRUCache } from 'lru-cache';
import webPush from 'web-push';

/** Validity of a signature; RFC 8292, 2 allows a day. */
const VALIDITY_MS = 12 * 3_600_000;
/** Age at which a signature is renewed: long before it expires, since the clocks of push services differ. */
const RENEW_AFTER_MS = VALIDITY_MS / 2;
/** Minimum age of a refused signature that is renewed. A younger one was refused for another reason than its age. */
const MIN_RENEW_AGE_MS = 60_000;
/**
 * Maximum origins whose signature is remembered. Endpoints come from devices, and a vendor's domain has any number of
 * host names.
 */
const MAX_ORIGINS = 200;

interface Signature {
  authorization: string;
  signedAt: number;
}

/** An app's authentication to push services (RFC 8292): one signature for each origin, used for many requests. */
export type Vapid = ReturnType<typeof createVapid>;

/** Creates the signatures of an app. @throws when the secret is no key pair of P-256, or its contact no URL */
export function createVapid(secret: SecretOf<'web-push'>, now = () => performance.now()) {
  const signatures = new LRUCache<string, Signature>({ max: MAX_ORIGINS });

  function sign(origin: string): Signature {
    const { contact, publicKey, privateKey } = secret;
    const expiresAtSeconds = Math.floor((Date.now() + VALIDITY_MS) / 1_000);
    const { Authorization: authorization } = webPush.getVapidHeaders(
      origin,
      contact,
      publicKey,
      privateKey,
      'aes128gcm',
      expiresAtSeconds,
    );
    const signature = { authorization, signedAt: now() };
    signatures.set(origin, signature);
    return signature;
  }

  return {
    /** Returns the Authorization header for an origin. */
    authorize(origin: string): string {
      const existing = signatures.get(origin);
      const isFresh = existing !== undefined && now() - existing.signedAt < RENEW_AFTER_MS;
      return (isFresh ? existing : sign(origin)).authorization;
    },
    /**
     * Replaces a refused Authorization header.
     *
     * @returns whether a newer signature can be tried
     */
    renew(origin: string, refusedAuthorization: string): boolean {
      const existing = signatures.get(origin);
      if (existing === undefined || existing.authorization !== refusedAuthorization) return true;
      if (now() - existing.signedAt < MIN_RENEW_AGE_MS) return false;
      sign(origin);
      return true;
    },
  };
}
