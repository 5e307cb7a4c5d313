import { createPublicKey, type KeyObject } from 'node:crypto';
import { findContactFault } from '@carillon/core/web-push-contact';
import { type Jwt, parseJwt } from '../transport/jwt.ts';

const DAY_SECONDS = 86_400;
/** Maximum clock difference that is tolerated. */
const LEEWAY_SECONDS = 60;
const MAX_CACHED_TOKENS = 1_000;

/** Reason to reject an application server; undefined if it is authorized. */
export type VapidError = 'missing' | 'invalid' | 'key-mismatch' | 'bad-contact' | undefined;

interface VerifiedToken {
  key: string;
  expiresAt: number;
  hasContact: boolean;
}

/** Verifies VAPID credentials (RFC 8292). */
export type VapidVerifier = ReturnType<typeof createVapidVerifier>;

/** Creates a verifier for pushes to an origin. It caches verified tokens. */
export function createVapidVerifier(origin: () => string) {
  const verifiedByAuthorization = new Map<string, VerifiedToken>();

  function verify(authorization: string): VerifiedToken | undefined {
    const token = /\bt=([\w.-]+)/.exec(authorization)?.[1];
    const key = /\bk=([\w-]+)/.exec(authorization)?.[1];
    const publicKey = key === undefined ? undefined : importPublicKey(key);
    const jwt = token === undefined ? undefined : parseJwt(token);
    if (key === undefined || publicKey === undefined || jwt === undefined) return undefined;
    const expiresAt = parseExpiry(jwt, origin());
    if (expiresAt === undefined || !jwt.isSignedBy(publicKey, 'ES256')) return undefined;
    const { sub } = jwt.claims;
    const hasContact = typeof sub === 'string' && findContactFault(sub) === undefined;
    return { key, expiresAt, hasContact };
  }

  return {
    /**
     * @param subscriptionKey the subscription's key, base64url without padding
     * @param checksContact as Apple does
     */
    check: (
      authorization: string | undefined,
      subscriptionKey: string | undefined,
      checksContact: boolean,
    ): VapidError => {
      if (authorization === undefined) return 'missing';
      const found = verifiedByAuthorization.get(authorization) ?? verify(authorization);
      if (found === undefined || found.expiresAt < Date.now() / 1_000) return 'invalid';
      if (verifiedByAuthorization.size === MAX_CACHED_TOKENS) verifiedByAuthorization.clear();
      verifiedByAuthorization.set(authorization, found);
      if (checksContact && !found.hasContact) return 'bad-contact';
      const isKeyMatch = subscriptionKey === undefined || subscriptionKey === found.key;
      return isKeyMatch ? undefined : 'key-mismatch';
    },
    /** Expires all tokens verified so far. */
    expireTokens: (): void => {
      for (const found of verifiedByAuthorization.values()) found.expiresAt = 0;
    },
  };
}

/** Checks audience and expiry (RFC 8292, 2): the exact origin, at most a day ahead. @returns the expiry */
function parseExpiry({ claims: { aud, exp } }: Jwt, origin: string): number | undefined {
  if (aud !== origin || typeof exp !== 'number') return undefined;
  return exp > Date.now() / 1_000 + DAY_SECONDS + LEEWAY_SECONDS ? undefined : exp;
}

function importPublicKey(text: string): KeyObject | undefined {
  const point = Buffer.from(text, 'base64url');
  if (point.length !== 65) return undefined;
  const x = point.toString('base64url', 1, 33);
  const y = point.toString('base64url', 33);
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  } catch {
    return undefined;
  }
}
