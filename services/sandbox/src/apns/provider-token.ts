import { createPublicKey } from 'node:crypto';
import { APPLE } from '../files/ensure-files.ts';
import { readJwt } from '../wire/jwt.ts';
import type { Reason } from './reasons.ts';

const HOUR_MS = 3_600_000;
/** Clocks differ a little. */
const LEEWAY_MS = 60_000;
const REMEMBERED = 1_000;

/** Checks provider tokens (Apple, "Establishing a token-based connection to APNs"). */
export interface ProviderTokens {
  /** @returns why the token in this header isn't good; undefined: it is */
  check(authorization: string): Reason | undefined;
  /** Every token issued up to now has expired. */
  expire(): void;
}

/** Makes the check for one .p8 key, PEM; a token once verified is known by its text. */
export function createProviderTokens(p8: string): ProviderTokens {
  const key = createPublicKey(p8);
  const known = new Map<string, number>();
  let expiredBeforeMs = 0;

  /** When the token was issued, Unix milliseconds; undefined: it isn't good. */
  function verify(authorization: string): number | undefined {
    const jwt = readJwt(authorization.replace(/^bearer /i, ''));
    const { iat, iss } = jwt?.claims ?? {};
    if (jwt?.header.kid !== APPLE.keyId || iss !== APPLE.teamId) return undefined;
    if (typeof iat !== 'number' || iat * 1_000 > Date.now() + LEEWAY_MS) return undefined;
    return jwt.isSignedBy(key, 'ES256') ? iat * 1_000 : undefined;
  }

  return {
    check: (authorization) => {
      let issuedAtMs = known.get(authorization);
      if (issuedAtMs === undefined) {
        issuedAtMs = verify(authorization);
        if (issuedAtMs === undefined) return 'InvalidProviderToken';
        if (known.size === REMEMBERED) known.clear();
        known.set(authorization, issuedAtMs);
      }
      const isOld = issuedAtMs < Date.now() - HOUR_MS || issuedAtMs < expiredBeforeMs;
      return isOld ? 'ExpiredProviderToken' : undefined;
    },
    expire: () => {
      // Tokens tell their age in whole seconds, so those of this second are expired by their text.
      expiredBeforeMs = Math.floor(Date.now() / 1_000) * 1_000;
      for (const authorization of known.keys()) known.set(authorization, 0);
    },
  };
}
