import { createPublicKey } from 'node:crypto';
import { APPLE_CREDENTIALS } from '../files/ensure-files.ts';
import { parseJwt } from '../transport/jwt.ts';
import type { Reason } from './reasons.ts';

const HOUR_MS = 3_600_000;
/** Maximum clock difference that is tolerated. */
const LEEWAY_MS = 60_000;
const MAX_CACHED_TOKENS = 1_000;

/** Verifies provider tokens (Apple, "Establishing a token-based connection to APNs"). */
export type ProviderTokenVerifier = ReturnType<typeof createProviderTokenVerifier>;

/** Creates a verifier for one .p8 key, PEM. It caches verified tokens. */
export function createProviderTokenVerifier(p8: string) {
  const key = createPublicKey(p8);
  const issuedAtByToken = new Map<string, number>();
  let expiredBeforeMs = 0;

  /**
   * Verifies a token.
   *
   * @returns its issue time, Unix milliseconds; undefined if it is invalid
   */
  function verify(authorization: string): number | undefined {
    const jwt = parseJwt(authorization.replace(/^bearer /i, ''));
    const { iat, iss } = jwt?.claims ?? {};
    if (jwt?.header.kid !== APPLE_CREDENTIALS.keyId || iss !== APPLE_CREDENTIALS.teamId)
      return undefined;
    if (typeof iat !== 'number' || iat * 1_000 > Date.now() + LEEWAY_MS) return undefined;
    return jwt.isSignedBy(key, 'ES256') ? iat * 1_000 : undefined;
  }

  return {
    /**
     * Checks the token in this header.
     *
     * @returns the reason to reject it; undefined if it is valid
     */
    check: (authorization: string): Reason | undefined => {
      let issuedAtMs = issuedAtByToken.get(authorization);
      if (issuedAtMs === undefined) {
        issuedAtMs = verify(authorization);
        if (issuedAtMs === undefined) return 'InvalidProviderToken';
        if (issuedAtByToken.size === MAX_CACHED_TOKENS) issuedAtByToken.clear();
        issuedAtByToken.set(authorization, issuedAtMs);
      }
      const isExpired = issuedAtMs < Date.now() - HOUR_MS || issuedAtMs < expiredBeforeMs;
      return isExpired ? 'ExpiredProviderToken' : undefined;
    },
    /** Expires every token issued so far. */
    expireTokens: (): void => {
      // Issue times are whole seconds, so cached tokens of this second are expired one by one.
      expiredBeforeMs = Math.floor(Date.now() / 1_000) * 1_000;
      for (const authorization of issuedAtByToken.keys()) issuedAtByToken.set(authorization, 0);
    },
  };
}
