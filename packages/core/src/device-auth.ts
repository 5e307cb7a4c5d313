import {
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
  timingSafeEqual,
} from 'node:crypto';

/** Server keys for device credentials, newest first: the first one signs, all of them verify. */
export type DeviceAuthKeys = readonly { id: number; key: KeyObject }[];

/** Characters of an auth that name its key: hexadecimal digits. */
const KEY_ID_LENGTH = 2;
/** Characters of an auth. */
const AUTH_LENGTH = 64;

/** Parses `1:<hex>,2:<hex>` (key id 0–255, at least 32 bytes). @throws Error on any other form */
export function parseDeviceAuthKeys(text: string): DeviceAuthKeys {
  return text.split(',').map((part) => {
    const match = /^(\d{1,3}):((?:[0-9a-f]{2}){32,})$/.exec(part.trim());
    if (match?.[1] === undefined || match[2] === undefined || Number(match[1]) > 255) {
      throw new Error('device auth keys are written as <id 0-255>:<at least 64 hex characters>');
    }
    // A KeyObject is created once; with raw bytes every HMAC would create it again.
    return { id: Number(match[1]), key: createSecretKey(Buffer.from(match[2], 'hex')) };
  });
}

function signToken(key: { id: number; key: KeyObject }, token: string): string {
  const id = key.id.toString(16).padStart(KEY_ID_LENGTH, '0');
  const digest = createHmac('sha256', key.key).update(token).digest('hex');
  return (id + digest).slice(0, AUTH_LENGTH);
}

/** Creates a device's `auth`: key id (2 hex characters) and HMAC-SHA-256 of the token (62). Verified without a database. */
export function createDeviceAuth(keys: DeviceAuthKeys, token: string): string {
  const [newest] = keys;
  if (newest === undefined) throw new Error('no device auth key');
  return signToken(newest, token);
}

/** Checks in constant time that one of our keys made `auth` for this token. */
export function isDeviceAuth(keys: DeviceAuthKeys, token: string, auth: string): boolean {
  if (auth.length !== AUTH_LENGTH) return false;
  const id = Number.parseInt(auth.slice(0, KEY_ID_LENGTH), 16);
  const key = keys.find((candidate) => candidate.id === id);
  if (key === undefined) return false;
  const expected = Buffer.from(signToken(key, token));
  const given = Buffer.from(auth);
  return expected.length === given.length && timingSafeEqual(expected, given);
}

/**
 * Checks in constant time that `auth` belongs to an imported device: it keeps the auth of its former service, of which
 * we store a SHA-256 digest.
 *
 * @param authDigest hex; undefined for a device that is unknown or was registered here
 */
export function matchesAuthDigest(authDigest: string | undefined, auth: string): boolean {
  if (authDigest === undefined) return false;
  const actual = createHash('sha256').update(auth).digest();
  const expected = Buffer.from(authDigest, 'hex');
  return actual.length === expected.length && timingSafeEqual(actual, expected);
}
