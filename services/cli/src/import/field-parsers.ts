import { createHash } from 'node:crypto';
import { PLATFORMS, type Platform, type ProviderAddress } from '@carillon/core/channels';
import { PUSH_KINDS, type PushKind } from '@carillon/core/channels/apns';
import { DEVICE_TOKEN, LIMITS, TOPIC_NAME } from '@carillon/core/limits';

/** A line that is not imported, with the reason for its report. */
export class RefusedLine extends Error {}

/** The fields of a line; absent and empty ones are undefined. */
export type LineFields = (name: string) => string | undefined;

/** APNs and settings of the import that a file does not hold. */
export interface AppleSettings {
  environment: 'development' | 'production';
  bundle?: string | undefined;
}

/** Maximum characters of a value that are quoted. */
const MAX_QUOTED = 40;
const MIN_YEAR_MS = Date.UTC(2000, 0);
const MAX_YEAR_MS = Date.UTC(2100, 0);
const APNS_TOKEN = /^(?:[0-9a-f]{2}){32,100}$/;
const FCM_TOKEN = /^[\x21-\x7e]{1,4096}$/;
const BUNDLE = /^[0-9A-Za-z.-]{1,155}$/;
const BASE64URL = /^[0-9A-Za-z_-]{20,200}$/;
const SHA256 = /^[0-9a-f]{64}$/;
/** Pattern of a date and time in UTC, as databases print them. */
const DATABASE_TIME = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d+)?) ?(?:UTC|Z|\+00(?::?00)?)?$/;

/** Returns the device token of a line. @throws RefusedLine */
export function parseToken(text: string | undefined): string {
  if (text === undefined) throw new RefusedLine('no token');
  if (DEVICE_TOKEN.test(text)) return text;
  throw new RefusedLine('the token is not 1 to 64 letters, digits, hyphens and underscores');
}

/** Returns the platform of a line. @throws RefusedLine */
export function parsePlatform(text: string | undefined): Platform {
  const found = PLATFORMS.find((platform) => platform === text?.toLowerCase());
  if (found !== undefined) return found;
  throw new RefusedLine(`unknown platform ${quote(text)}`);
}

/**
 * Parses unix seconds or milliseconds, ISO 8601 with a time zone, or `2026-11-23 08:00:00` in UTC.
 *
 * @throws RefusedLine for any other form
 */
export function parseDate(name: string, text: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const ms = toMilliseconds(text);
  if (ms > MIN_YEAR_MS && ms < MAX_YEAR_MS) return new Date(ms);
  throw new RefusedLine(`${name} is no date: ${quote(text)}`);
}

function toMilliseconds(text: string): number {
  if (/^\d{9,10}$/.test(text)) return Number(text) * 1_000;
  if (/^\d{12,13}$/.test(text)) return Number(text);
  const [, day, time] = DATABASE_TIME.exec(text) ?? [];
  if (day !== undefined) return Date.parse(`${day}T${time}Z`);
  return /(?:Z|[+-]\d\d:\d\d)$/.test(text) ? Date.parse(text) : Number.NaN;
}

/** Returns the address of an iOS device. @throws RefusedLine */
export function parseApnsAddress(
  text: string,
  { environment, bundle }: AppleSettings,
): ProviderAddress {
  // Some services print the bytes with blanks and angle brackets, as iOS once did.
  const address = text.replaceAll(/[<> ]/g, '').toLowerCase();
  if (!APNS_TOKEN.test(address)) throw new RefusedLine('the APNs token is not hexadecimal');
  if (bundle === undefined || !BUNDLE.test(bundle))
    throw new RefusedLine('the bundle id of the iOS app is unknown; give --bundle');
  return { channel: 'apns', address, environment, bundle };
}

/** Returns the kind of an APNs token as a field of its address. @throws RefusedLine */
export function parsePushKind(text: string | undefined): { kind?: PushKind } {
  if (text === undefined) return {};
  const kind = PUSH_KINDS.find((one) => one === text);
  if (kind === undefined) throw new RefusedLine(`unknown push_kind ${quote(text)}`);
  return { kind };
}

/** Returns the address of an Android device, or of an iOS device through FCM. @throws RefusedLine */
export function parseFcmAddress(text: string, platform: Platform): ProviderAddress {
  if (!FCM_TOKEN.test(text))
    throw new RefusedLine('the FCM token is not 1 to 4,096 printable characters');
  return { channel: 'fcm', address: text, ...(platform === 'ios' && { isApple: true as const }) };
}

/** Returns the address of a browser, from an export of Carillon. @throws RefusedLine */
export function parseBrowserAddress(
  endpoint: string,
  p256dh: string | undefined,
  auth: string | undefined,
): ProviderAddress {
  const isHttps = endpoint.length <= 2_048 && URL.parse(endpoint)?.protocol === 'https:';
  if (!isHttps) throw new RefusedLine('the address of the browser is no https URL');
  if (
    p256dh === undefined ||
    auth === undefined ||
    !BASE64URL.test(p256dh) ||
    !BASE64URL.test(auth)
  )
    throw new RefusedLine('p256dh and auth of the browser are not base64url');
  return { channel: 'web-push', address: endpoint, p256dh, auth };
}

/** Returns the digest that a device's auth key is checked against. @throws RefusedLine */
export function parseAuthDigest(
  auth: string | undefined,
  digest: string | undefined,
): string | undefined {
  if (auth !== undefined) return createHash('sha256').update(auth).digest('hex');
  if (digest === undefined || SHA256.test(digest)) return digest;
  throw new RefusedLine('auth_sha256 is not 64 hexadecimal digits');
}

/** Parses a list of topics: JSON, or names separated by commas, semicolons or blanks. @throws RefusedLine */
export function parseTopics(text: string | undefined): string[] {
  if (text === undefined) return [];
  const names = [...new Set(text.split(/[\s,;"[\]]+/).filter((name) => name !== ''))];
  const wrong = names.find((name) => !TOPIC_NAME.test(name));
  if (wrong !== undefined) throw new RefusedLine(`no topic name: ${quote(wrong)}`);
  if (names.length <= LIMITS.topicsPerDevice) return names;
  throw new RefusedLine(`more than ${LIMITS.topicsPerDevice} topics`);
}

/** Parses `true`, `t`, `1` and their opposites; an empty field is false. @throws RefusedLine */
export function parseFlag(name: string, text: string | undefined): boolean {
  if (text === undefined || /^(false|f|0)$/i.test(text)) return false;
  if (/^(true|t|1)$/i.test(text)) return true;
  throw new RefusedLine(`${name} is neither true nor false: ${quote(text)}`);
}

/** Quotes a value in a reason, shortened. */
export function quote(text: string | undefined): string {
  return text === undefined ? '(none)' : JSON.stringify(text.slice(0, MAX_QUOTED));
}
