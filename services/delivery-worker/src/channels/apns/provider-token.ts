import { createPrivateKey, hash, type KeyObject, sign } from 'node:crypto';
import type { SecretOf } from '@carillon/core/channels';
import { LRUCache } from 'lru-cache';

/** Minimum age of a token that is replaced (Apple, "Establishing a token-based connection to APNs"). */
const MIN_AGE_MS = 20 * 60_000;
/** Age at which a token is replaced: Apple accepts it for 60 minutes, and none may expire in flight. */
const MAX_AGE_MS = 55 * 60_000;
/**
 * Maximum drift between the wall clock and the monotonic one since a token was signed; above it the clock was
 * corrected.
 */
const MAX_CORRECTION_MS = 60_000;
/** Maximum keys whose token is remembered: far more than are in use, so only tokens of replaced keys are forgotten. */
const MAX_KEYS = 10_000;

type SigningKey = Pick<SecretOf<'apns-token'>, 'key' | 'keyId' | 'teamId'>;

/** A signed provider token. */
export interface ProviderToken {
  /** Value of the `authorization` header. */
  authorization: string;
  /** Returns the milliseconds since it was signed. */
  ageMs(): number;
  /** Checks whether the wall clock, by which it was signed, has been corrected since, or the machine was suspended. */
  isOfOtherClock(): boolean;
}

/** The provider token of one key. */
export interface KeyToken {
  /** Returns the token for a request; signs one if there is none, it is too old, or the clock has been corrected. */
  current(): ProviderToken;
  /**
   * Replaces a token that APNs called expired, unless that has been done already.
   *
   * @returns the token to send instead; undefined if the refused one is younger than 20 minutes: then its age is not
   * the cause, and APNs would answer further tokens with TooManyProviderTokenUpdates
   */
  replace(refused: ProviderToken): ProviderToken | undefined;
}

/** Provider tokens of many keys. */
export interface ProviderTokens {
  /** Returns the token of a key and its team, the same for all callers. @throws Error if the key can't be read */
  of(key: SigningKey): KeyToken;
}

/**
 * Creates an empty registry of provider tokens. Tokens stay in it while clients open and close.
 *
 * @param now monotonic clock, milliseconds: a corrected system clock changes no token's age
 * @param wallNow wall clock, milliseconds: shows that it was corrected since
 */
export function createProviderTokens(
  now = () => performance.now(),
  wallNow = () => Date.now(),
): ProviderTokens {
  const tokens = new LRUCache<string, ProviderToken>({ max: MAX_KEYS });

  function of({ key, keyId, teamId }: SigningKey): KeyToken {
    const privateKey = createPrivateKey(key);
    // Apps choose their ids: without its key's hash one app could send with the token of another.
    const id = `${keyId} ${teamId} ${hashKey(privateKey)}`;

    function signNew(): ProviderToken {
      const signedAt = now();
      const signedAtWall = wallNow();
      const authorization = `bearer ${signJwt(privateKey, keyId, teamId)}`;
      const ageMs = () => now() - signedAt;
      const isOfOtherClock = () => Math.abs(wallNow() - signedAtWall - ageMs()) > MAX_CORRECTION_MS;
      const token = { authorization, ageMs, isOfOtherClock };
      tokens.set(id, token);
      return token;
    }

    function current(): ProviderToken {
      const token = tokens.get(id);
      if (token === undefined || token.isOfOtherClock()) return signNew();
      return token.ageMs() < MAX_AGE_MS ? token : signNew();
    }

    function replace(refused: ProviderToken): ProviderToken | undefined {
      const token = current();
      if (token !== refused) return token;
      return token.ageMs() < MIN_AGE_MS ? undefined : signNew();
    }

    return { current, replace };
  }

  return { of };
}

/** Hashes the key itself: its PEM text may have other line ends elsewhere. */
function hashKey(privateKey: KeyObject): string {
  return hash('sha256', privateKey.export({ type: 'pkcs8', format: 'der' }), 'base64url');
}

/** Signs a JWT by ES256 (RFC 7518, 3.4). */
function signJwt(privateKey: KeyObject, keyId: string, teamId: string): string {
  const header = { alg: 'ES256', kid: keyId };
  const claims = { iss: teamId, iat: Math.floor(Date.now() / 1_000) };
  const signed = [header, claims].map(toBase64Url).join('.');
  const signature = sign('sha256', Buffer.from(signed), {
    key: privateKey,
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}

function toBase64Url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
