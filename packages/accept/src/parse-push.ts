import { ApiError } from '@carillon/core/api-error';
import type { Channel } from '@carillon/core/channels';
import { visitInParts } from '@carillon/core/in-parts';
import {
  compactJson,
  type JsonBody,
  parseJsonObject,
  readFieldText,
} from '@carillon/core/json-text';
import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import {
  findFieldFault,
  PROVIDER_FIELDS,
  type ProviderTexts,
} from '@carillon/core/provider-fields';
import { notification, type PushOptions, pickOptions } from '@carillon/core/push-options';
import { invalidParameter, validate } from '@carillon/core/validate';
import type { AppDocument, PushDocument } from '@carillon/store/documents';
import { type PushBody, pushBody } from './schema.ts';

/** Content and audience of a push. */
interface PushContent {
  /** Without duplicates, in the order of the request. */
  tokens: string[];
  topics: string[];
  /** JSON text. */
  data: string;
  /** Time to send at, milliseconds since 1970; undefined for now. */
  dueAtMs?: number;
  /** Only subscribers of the topics that were seen so long before the push is sent. */
  activeWithinSeconds?: number;
  options?: PushOptions | undefined;
  /** The only channel that is used, instead of the first one of each device's platform: for a test of that channel. */
  channel?: Channel;
}

/**
 * A validated request to send a push; its recipients are not resolved yet. It has a time to live, or the ends of an
 * earlier push that it repeats.
 */
export type PushRequest = PushContent &
  ({ timeToLiveSeconds: number } | Pick<PushDocument, 'expiresAt' | 'sendUntil'>);

const TOPIC_PREFIX = '/topics/';

/** Maximum warnings of a response. */
export const MAX_WARNINGS = 10;
const MAX_WARNING_CHARACTERS = 64;
/** Maximum fields of an object that are checked; objects written by hand have fewer. */
const MAX_CHECKED_FIELDS = 100;
/** Minimum length of a name that is compared with others; shorter names are similar to too many. */
const MIN_NAME_CHARACTERS = 5;

/** Fields of requests to other services, and what to do instead. */
const FOREIGN_FIELDS = new Map([
  ['ttl', 'use time_to_live'],
  ['contents', 'use data or notification.body'],
  ['include_aliases', 'use to'],
  ['image', 'use fcm.notification.image'],
  ['android', 'use fcm.android'],
  ['webpush', 'use web_push'],
  ['message', 'put its fields at the top level'],
  ['notification.image', 'use fcm.notification.image'],
  ['notification.subtitle', 'use apns.payload.aps.alert'],
]);
/** Fields of `data` that a channel replaces by its own. */
const REPLACED_FIELDS = {
  aps: 'ours for iOS devices; use apns.payload',
  _pushyId: 'ours for iOS devices and browsers',
  _pushyCollapseKey: 'collapse_key for browsers',
} as const;

const RECIPIENT_FIELDS = ['to', 'tokens', 'registration_ids'] as const;
const PUSH_FIELDS = Object.keys(pushBody.shape) as (keyof PushBody)[];
const NOTIFICATION_FIELDS = Object.keys(notification.shape);

/** Settings of an app for its pushes. */
export type PushSettings = Pick<AppDocument, 'payloadLimit' | 'dataString'>;

/**
 * Parses the body of `POST /push`.
 *
 * @param nowMs MongoDB's time
 * @throws ApiError INVALID_PARAM, PAYLOAD_LIMIT_EXCEEDED
 */
export async function parsePush(
  body: JsonBody,
  app: PushSettings,
  nowMs: number,
): Promise<PushRequest> {
  const request = await readRequest(body, app, nowMs);
  if (request instanceof ApiError) throw request;
  return request;
}

/**
 * Parses the body as {@link parsePush} does, but returns most errors: V8 compiles only functions that return, so one that
 * throws for most of the requests of a faulty client stays slow.
 */
async function readRequest(
  body: JsonBody,
  app: PushSettings,
  nowMs: number,
): Promise<PushRequest | ApiError> {
  const missing = findMissing(body.value);
  if (missing !== undefined) return missing;
  const payload = readPayloadText(body, app.dataString === true);
  if (payload === undefined && typeof body.value.data === 'string') return dataNotObject();
  // `data` is not validated further: it is stored as text, and its keys are free.
  const fields = validate(
    pushBody,
    pickFields(body.value, payload === undefined ? body.value.data : {}),
  );
  if (payload === undefined) return invalidParameter('data', 'must be an object');
  const limit = app.payloadLimit ?? LIMITS.payloadCharacters;
  if (payload.length > limit) return payloadTooLong(payload.length, limit);
  const texts = readProviderTexts(body);
  if (texts instanceof ApiError) return texts;
  const dueAtMs = parseSchedule(fields.schedule, nowMs);
  if (dueAtMs instanceof ApiError) return dueAtMs;
  const audience = await parseAudience(fields);
  const { active_within: activeWithinSeconds } = fields;
  if (activeWithinSeconds !== undefined && audience.tokens.length > 0)
    return invalidParameter('active_within', 'is only for topics; the push has device tokens');
  return {
    ...audience,
    ...(activeWithinSeconds !== undefined && { activeWithinSeconds }),
    data: payload,
    timeToLiveSeconds: fields.time_to_live ?? LIMITS.timeToLiveDefault,
    ...(dueAtMs !== undefined && { dueAtMs }),
    options: pickOptions(fields, texts),
  };
}

/** Reads the objects that are merged over what the channels make: null in them removes a field, so it stays. */
function readProviderTexts({ text, value }: JsonBody): ProviderTexts | ApiError {
  const texts: ProviderTexts = {};
  for (const name of PROVIDER_FIELDS) {
    const field = value[name] ?? undefined;
    if (field === undefined) continue;
    const fieldText = isObject(field) ? readFieldText(text, name) : undefined;
    if (fieldText === undefined) return invalidParameter(name, 'must be an object');
    if (fieldText.length > LIMITS.providerFieldCharacters) {
      const limit = LIMITS.providerFieldCharacters.toLocaleString('en');
      return invalidParameter(name, `must have at most ${limit} characters as JSON`);
    }
    const problemOf = (problem: string) => invalidParameter(name, problem);
    const parsed = parseJsonObject(fieldText, LIMITS.providerFieldDepth, problemOf);
    const fault = findFieldFault(name, parsed);
    if (fault !== undefined) return invalidParameter(shortenPath(fault.path), fault.problem);
    texts[name] = fieldText;
  }
  return texts;
}

/** Shortens a path with a name of the client for the text of an error. */
function shortenPath(path: string): string {
  return path.slice(0, MAX_WARNING_CHARACTERS).toWellFormed();
}

/**
 * Picks the fields of a push, of which null ones count as absent, with another value of `data`, and without the objects
 * that are merged over what the channels make. All requests give objects
 * of one shape, which are validated faster than those of as many shapes as there are clients.
 */
function pickFields(
  value: Record<string, unknown>,
  data: unknown,
): Record<keyof PushBody, unknown> {
  const picked = {} as Record<keyof PushBody, unknown>;
  for (const name of PUSH_FIELDS)
    picked[name] = (name === 'data' ? data : value[name]) ?? undefined;
  for (const name of PROVIDER_FIELDS) picked[name] = undefined;
  return picked;
}

/** Returns the error for a push without payload or recipients, with the fields that may have been meant. */
function findMissing(value: Record<string, unknown>): ApiError | undefined {
  const isAbsent = (name: keyof PushBody) => (value[name] ?? undefined) === undefined;
  const hint = () => {
    const warnings = shorten(findIgnoredFields(value));
    return warnings.length === 0 ? '' : ` (${warnings.join(', ')})`;
  };
  if (isAbsent('data'))
    return invalidParameter('data', `is missing; it must be an object${hint()}`);
  if (RECIPIENT_FIELDS.every(isAbsent)) return invalidParameter('to', `is missing${hint()}`);
  return undefined;
}

function payloadTooLong(characters: number, limit: number): ApiError {
  const problem = `has ${characters.toLocaleString('en')} characters as stringified JSON`;
  const text = `The payload ("data") ${problem}; the limit is ${limit.toLocaleString('en')}.`;
  return new ApiError('PAYLOAD_LIMIT_EXCEEDED', text, undefined, 'data');
}

function dataNotObject(): ApiError {
  const exception = "unless the app's setting for data as a JSON string is on";
  return invalidParameter('data', `must be an object, not a string, ${exception}`);
}

/**
 * Parses the recipients of a request as {@link parsePush} does, and not its payload.
 *
 * @throws ApiError INVALID_PARAM
 */
export function parseRecipients({
  value,
}: Pick<JsonBody, 'value'>): Promise<Pick<PushRequest, 'tokens' | 'topics'>> {
  return parseAudience(validate(pushBody, pickFields(value, {})));
}

/** Returns the tokens of a request that was accepted before, as {@link parsePush} returned them. */
export async function parseTokens(body: JsonBody): Promise<string[]> {
  return (await parseRecipients(body)).tokens;
}

/** Returns the payload's JSON text; undefined if the payload is not an object. */
function readPayloadText({ text, value }: JsonBody, allowsString: boolean): string | undefined {
  const { data } = value;
  if (typeof data === 'string' && allowsString) {
    parseJsonObject(data, LIMITS.payloadDepth, (problem) =>
      invalidParameter('data', `is a string that ${problem}`),
    );
    return compactJson(data);
  }
  return isObject(data) ? readFieldText(text, 'data') : undefined;
}

/** Merges tokens and topics of `to`, `tokens` and `registration_ids`, without duplicates, which count for the limit. */
async function parseAudience(body: PushBody): Promise<{ tokens: string[]; topics: string[] }> {
  const to = typeof body.to === 'string' ? [body.to] : (body.to ?? []);
  const tokens = new Set<string>();
  const topics = new Set<string>();
  let tokenCount = 0;
  for (const recipients of [to, body.tokens ?? [], body.registration_ids ?? []]) {
    await visitInParts(recipients, (item) => {
      if (item.startsWith(TOPIC_PREFIX)) {
        topics.add(parseTopicName(item));
      } else {
        tokens.add(item);
        tokenCount += 1;
      }
    });
  }
  if (tokenCount > LIMITS.tokensPerPush) {
    throw invalidParameter('to', `must have at most ${LIMITS.tokensPerPush} tokens`);
  }
  if (topics.size > LIMITS.topicsPerPush) {
    throw invalidParameter('to', `must have at most ${LIMITS.topicsPerPush} topics`);
  }
  return { tokens: [...tokens], topics: [...topics] };
}

function parseTopicName(recipient: string): string {
  const name = recipient.slice(TOPIC_PREFIX.length);
  if (TOPIC_NAME.test(name)) return name;
  throw invalidParameter('to', 'has a topic whose name does not match [a-zA-Z0-9-_.]{1,100}');
}

function parseSchedule(schedule: number | undefined, nowMs: number): number | undefined | ApiError {
  if (schedule === undefined) return undefined;
  const dueAtMs = schedule * 1_000;
  if (dueAtMs > nowMs && dueAtMs <= addOneYear(nowMs)) return dueAtMs;
  const hint = isWithinTenYears(schedule, nowMs) ? '; the given value is in milliseconds' : '';
  const problem = `must be a future unix timestamp in seconds, at most one year ahead${hint}`;
  return invalidParameter('schedule', problem);
}

/** Checks that a number, read as milliseconds, is a time near now. Read as seconds it would be millennia away. */
function isWithinTenYears(ms: number, nowMs: number): boolean {
  return Math.abs(ms - nowMs) < 10 * 366 * 86_400_000;
}

/** Adds a calendar year, in UTC. */
function addOneYear(ms: number): number {
  const date = new Date(ms);
  return date.setUTCFullYear(date.getUTCFullYear() + 1);
}

/**
 * Lists the ignored fields of an accepted push that other services have or whose names are similar to known ones, and
 * the fields of its data that a channel replaces, for `info.warnings`.
 */
export function findWarnings(value: Record<string, unknown>): string[] {
  return shorten([...findIgnoredFields(value), ...findReplacedFields(value)]);
}

function shorten(warnings: readonly string[]): string[] {
  return warnings
    .slice(0, MAX_WARNINGS)
    .map((text) => text.slice(0, MAX_WARNING_CHARACTERS).toWellFormed());
}

function findIgnoredFields(value: Record<string, unknown>): string[] {
  const { notification: inner } = value;
  return [
    ...findUnknownFields(value, PUSH_FIELDS, ''),
    ...(isObject(inner) ? findUnknownFields(inner, NOTIFICATION_FIELDS, 'notification.') : []),
  ];
}

function findReplacedFields({ data, collapse_key }: Record<string, unknown>): string[] {
  const payload: unknown = typeof data === 'string' ? JSON.parse(data) : data;
  if (!isObject(payload)) return [];
  return Object.entries(REPLACED_FIELDS)
    .filter(([name]) => Object.hasOwn(payload, name))
    .filter(([name]) => name !== '_pushyCollapseKey' || typeof collapse_key === 'string')
    .map(([name, by]) => `data.${name}: replaced by ${by}`);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function findUnknownFields(
  value: object,
  knownFields: readonly string[],
  prefix: string,
): string[] {
  const warnings: string[] = [];
  let checkedFields = 0;
  for (const name in value) {
    checkedFields += 1;
    if (checkedFields > MAX_CHECKED_FIELDS) break;
    if (knownFields.includes(name) || name.length > MAX_WARNING_CHARACTERS) continue;
    const instead = FOREIGN_FIELDS.get(prefix + name);
    if (instead !== undefined) {
      warnings.push(`${prefix}${name}: ignored; ${instead}`);
      continue;
    }
    const intended = knownFields.find((knownField) =>
      isSimilar(normalizeName(name), normalizeName(knownField)),
    );
    if (intended !== undefined) warnings.push(`${prefix}${name}: did you mean ${intended}?`);
  }
  return warnings;
}

/** Maps `timeToLive`, `time-to-live` and `TIME_TO_LIVE` to the same name. */
function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
}

/** Checks that two names differ by at most one inserted, removed or replaced character. */
function isSimilar(a: string, b: string): boolean {
  if (a === b) return true;
  if (Math.min(a.length, b.length) < MIN_NAME_CHARACTERS || Math.abs(a.length - b.length) > 1) {
    return false;
  }
  let start = 0;
  while (start < a.length && a[start] === b[start]) start += 1;
  const tailOf = (text: string, skip: number) => text.slice(start + skip);
  if (a.length === b.length) return tailOf(a, 1) === tailOf(b, 1);
  return a.length > b.length ? tailOf(a, 1) === tailOf(b, 0) : tailOf(a, 0) === tailOf(b, 1);
}
