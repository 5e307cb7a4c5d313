import { createPublicKey, type KeyObject } from 'node:crypto';
import { type Jwt, readJwt } from '../wire/jwt.ts';

const DAY_SECONDS = 86_400;
/** Clocks differ a little. */
const LEEWAY_SECONDS = 60;
const REMEMBERED = 1_000;

/** Why an application server isn't let through; undefined: it is. */
export type VapidFault = 'missing' | 'wrong' | 'another' | undefined;

/** Checks who pushes (RFC 8292). */
export interface Vapid {
  /** @param boundTo the subscription's key, base64url without padding */
  check(authorization: string | undefined, boundTo: string | undefined): VapidFault;
  /** What was let through up to now is not any more. */
  expire(): void;
}

/** Makes the check for pushes to an origin; a token once verified is known by its text. */
export function createVapid(origin: () => string): Vapid {
  const known = new Map<string, { key: string; expiresAt: number }>();

  function verify(authorization: string): { key: string; expiresAt: number } | undefined {
    const token = /\bt=([\w.-]+)/.exec(authorization)?.[1];
    const key = /\bk=([\w-]+)/.exec(authorization)?.[1];
    const publicKey = key === undefined ? undefined : readPoint(key);
    const jwt = token === undefined ? undefined : readJwt(token);
    if (key === undefined || publicKey === undefined || jwt === undefined) return undefined;
    const expiresAt = expiryOf(jwt, origin());
    if (expiresAt === undefined || !jwt.isSignedBy(publicKey, 'ES256')) return undefined;
    return { key, expiresAt };
  }

  return {
    check: (authorization, boundTo) => {
      if (authorization === undefined) return 'missing';
      const found = known.get(authorization) ?? verify(authorization);
      if (found === undefined || found.expiresAt < Date.now() / 1_000) return 'wrong';
      if (known.size === REMEMBERED) known.clear();
      known.set(authorization, found);
      const isTheirs = boundTo === undefined || boundTo === found.key;
      return isTheirs ? undefined : 'another';
    },
    expire: () => {
      for (const found of known.values()) found.expiresAt = 0;
    },
  };
}

/** Audience and expiry (RFC 8292, 2): exactly the origin, at most a day ahead. */
function expiryOf({ claims: { aud, exp } }: Jwt, origin: string): number | undefined {
  if (aud !== origin || typeof exp !== 'number') return undefined;
  return exp > Date.now() / 1_000 + DAY_SECONDS + LEEWAY_SECONDS ? undefined : exp;
}

function readPoint(text: string): KeyObject | undefined {
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
