import type { SecretOf } from '@carillon/core/credentials';
import webPush from 'web-push';

/** A signature holds at most a day (RFC 8292, 2); ours half of one. */
const HOLDS_MS = 12 * 3_600_000;
/** Renewed long before it ends: push services' clocks differ. */
const RENEWED_AFTER_MS = HOLDS_MS / 2;
/** A signature as young as this was refused for another reason than its age. */
const YOUNG_MS = 60_000;
/** Endpoints come from devices; names under a vendor's domain have no end. */
const MAX_ORIGINS = 200;

interface Signed {
  authorization: string;
  at: number;
}

/** How an app proves to push services who it is: one signature for each origin, used again and again. */
export interface Vapid {
  /** The Authorization header for an origin. */
  authorize(origin: string): string;
  /**
   * Called when an origin refused an Authorization header.
   *
   * @returns whether a newer signature is there to be tried
   */
  renew(origin: string, refused: string): boolean;
}

/** @throws when the secret is no key pair of P-256, or its contact no URL */
export function createVapid(secret: SecretOf<'web-push'>, now = () => performance.now()): Vapid {
  const signed = new Map<string, Signed>();

  function sign(origin: string): Signed {
    const { contact, publicKey, privateKey } = secret;
    const until = Math.floor((Date.now() + HOLDS_MS) / 1_000);
    const { Authorization: authorization } = webPush.getVapidHeaders(
      origin,
      contact,
      publicKey,
      privateKey,
      'aes128gcm',
      until,
    );
    const made = { authorization, at: now() };
    if (signed.size >= MAX_ORIGINS) signed.clear();
    signed.set(origin, made);
    return made;
  }

  return {
    authorize(origin) {
      const known = signed.get(origin);
      const isGood = known !== undefined && now() - known.at < RENEWED_AFTER_MS;
      return (isGood ? known : sign(origin)).authorization;
    },
    renew(origin, refused) {
      const known = signed.get(origin);
      if (known === undefined || known.authorization !== refused) return true;
      if (now() - known.at < YOUNG_MS) return false;
      sign(origin);
      return true;
    },
  };
}
