import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto';

/** Server keys for device credentials, newest first: the first signs, all verify. */
export type DeviceAuthKeys = readonly { id: number; key: KeyObject }[];

const KEY_ID_CHARACTERS = 2;
const AUTH_CHARACTERS = 64;

/** Reads `1:<hex>,2:<hex>` (key id 0–255 : at least 32 bytes). Throws on anything else. */
export function parseDeviceAuthKeys(text: string): DeviceAuthKeys {
  return text.split(',').map((part) => {
    const match = /^(\d{1,3}):((?:[0-9a-f]{2}){32,})$/.exec(part.trim());
    if (match?.[1] === undefined || match[2] === undefined || Number(match[1]) > 255) {
      throw new Error('device auth keys are written as <id 0-255>:<at least 64 hex characters>');
    }
    // Handed over as bytes, it would be made a key again for each device of a herd.
    return { id: Number(match[1]), key: createSecretKey(Buffer.from(match[2], 'hex')) };
  });
}

function authWith(key: { id: number; key: KeyObject }, token: string): string {
  const id = key.id.toString(16).padStart(KEY_ID_CHARACTERS, '0');
  const digest = createHmac('sha256', key.key).update(token).digest('hex');
  return (id + digest).slice(0, AUTH_CHARACTERS);
}

/** The `auth` of a device: 2 hex characters of key id and 62 of HMAC-SHA-256(token). Needs no database to check. */
export function deviceAuth(keys: DeviceAuthKeys, token: string): string {
  const [newest] = keys;
  if (newest === undefined) throw new Error('no device auth key');
  return authWith(newest, token);
}

/** Whether `auth` was made by one of our keys for this token; takes the same time for any wrong one. */
export function isDeviceAuth(keys: DeviceAuthKeys, token: string, auth: string): boolean {
  if (auth.length !== AUTH_CHARACTERS) return false;
  const id = Number.parseInt(auth.slice(0, KEY_ID_CHARACTERS), 16);
  const key = keys.find((candidate) => candidate.id === id);
  if (key === undefined) return false;
  const expected = Buffer.from(authWith(key, token));
  const given = Buffer.from(auth);
  return expected.length === given.length && timingSafeEqual(expected, given);
}
