import { parseExactJson } from './json-merge.ts';

/** Fields of a push that are merged over what a channel makes of it, in the names and forms of its provider. */
export const PROVIDER_FIELDS = ['apns', 'fcm', 'web_push'] as const;
export type ProviderField = (typeof PROVIDER_FIELDS)[number];
/** The JSON texts of a push's fields: parsed values would lose large numbers. */
export type ProviderTexts = Partial<Record<ProviderField, string>>;

type JsonObject = Record<string, unknown>;

/** Headers of a request, by name. One that is null is not sent. */
type HeaderPatch = Record<string, string | null>;

/** Parsed fields of a push. */
export interface ProviderPatches {
  apns?: { headers?: HeaderPatch; payload?: JsonObject };
  fcm?: JsonObject & {
    android?: (JsonObject & { notification?: JsonObject | null }) | null;
    data?: JsonObject;
    notification?: JsonObject | null;
    apns?: { headers?: HeaderPatch; payload?: JsonObject };
  };
  web_push?: { headers?: HeaderPatch; payload?: JsonObject };
}

/** Parses the fields of a push that was accepted. */
export function parseProviderTexts(texts: ProviderTexts): ProviderPatches {
  const present = PROVIDER_FIELDS.flatMap((name) => {
    const text = texts[name];
    return text === undefined ? [] : [[name, parseExactJson(text)]];
  });
  const patches = Object.fromEntries(present) as ProviderPatches;
  for (const part of [patches.apns, patches.fcm?.apns, patches.web_push])
    if (part?.headers !== undefined) part.headers = toTexts(part.headers);
  return patches;
}

/** Converts the numbers among headers to texts: `1.79e9` is 1790000000. */
function toTexts(headers: Record<string, unknown>): HeaderPatch {
  const values = JSON.parse(JSON.stringify(headers)) as Record<string, string | number | null>;
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, value === null ? null : String(value)]),
  );
}

/** A part of a request that can't be accepted; `problem` continues the sentence. */
export interface FieldFault {
  path: string;
  problem: string;
}
type Check = (value: unknown, path: string) => FieldFault | undefined;

/** Characters of header values that have no form of their own. */
const COLLAPSE_ID = /^[\x21-\x7e]{1,64}$/;
const TOPIC = /^[0-9A-Za-z_-]{1,32}$/;
const EXPIRATION = /^\d{1,12}$/;
/** Keys of `data` that Google reserves (Firebase, "Message" of the HTTP v1 API). */
const RESERVED_KEY = /^(from|message_type|google\..*|gcm\..*)$/;
/** Field by which devices and the console recognize a push. */
const ID_FIELD = '_pushyId';
const FOLLOWS_FROM_DEVICE = "can't be set: it follows from the device";

const oneOf =
  (...allowed: readonly (string | number)[]): Check =>
  (value, path) =>
    allowed.includes(value as string)
      ? undefined
      : { path, problem: `must be ${[...new Set(allowed.map(String))].join(', ')}` };

const matching =
  (pattern: RegExp, form: string): Check =>
  (value, path) => {
    const text = typeof value === 'number' ? String(value) : value;
    const isMatching = typeof text === 'string' && pattern.test(text);
    return isMatching ? undefined : { path, problem: `must be ${form}` };
  };

/** Checks an object that may have these fields alone. @param forbidden problems of others; default: it can't be set */
function fieldsOf(
  allowed: Readonly<Record<string, Check>>,
  forbidden: Readonly<Record<string, string>> = {},
): Check {
  return (value, path) => {
    if (!isObject(value)) return { path, problem: 'must be an object' };
    for (const [name, inner] of Object.entries(value)) {
      const innerPath = `${path}.${name}`;
      const check = Object.hasOwn(allowed, name) ? allowed[name] : undefined;
      const problem = Object.hasOwn(forbidden, name) ? forbidden[name] : undefined;
      if (check === undefined) return { path: innerPath, problem: problem ?? "can't be set" };
      const fault = check(inner, innerPath);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
}

/** Checks an object of any fields but the id of the push. */
const payload: Check = (value, path) => {
  if (!isObject(value)) return { path, problem: 'must be an object' };
  if (!Object.hasOwn(value, ID_FIELD)) return undefined;
  return { path: `${path}.${ID_FIELD}`, problem: "can't be set: it is the id of the push" };
};

/** Checks `data` of FCM, whose values are texts. */
const data: Check = (value, path) => {
  const fault = payload(value, path);
  if (fault !== undefined || !isObject(value)) return fault;
  for (const [name, text] of Object.entries(value)) {
    const innerPath = `${path}.${name}`;
    if (RESERVED_KEY.test(name)) return { path: innerPath, problem: 'has a name of FCM itself' };
    if (typeof text !== 'string' && text !== null)
      return { path: innerPath, problem: 'must be a string: FCM has no other values in data' };
  }
  return undefined;
};

const anyObject: Check = (value, path) =>
  isObject(value) ? undefined : { path, problem: 'must be an object' };

const orNull =
  (check: Check): Check =>
  (value, path) =>
    value === null ? undefined : check(value, path);

const apnsHeaders = fieldsOf(
  {
    'apns-push-type': oneOf('alert', 'background'),
    'apns-priority': orNull(oneOf('10', '5', '1', 10, 5, 1)),
    'apns-expiration': orNull(matching(EXPIRATION, 'a unix timestamp in seconds')),
    'apns-collapse-id': orNull(matching(COLLAPSE_ID, '1 to 64 visible ASCII characters')),
  },
  { 'apns-topic': FOLLOWS_FROM_DEVICE, 'apns-id': "can't be set: it is Carillon's" },
);

/** Checks `android` of FCM, whose `data` would replace the data that Android devices get. */
const android: Check = (value, path) => {
  if (!isObject(value) || !Object.hasOwn(value, 'data')) return anyObject(value, path);
  return { path: `${path}.data`, problem: "can't be set: use fcm.data" };
};

const RECIPIENT = "can't be set: recipients are in to";
const CHECKS: Readonly<Record<ProviderField, Check>> = {
  apns: fieldsOf({ headers: apnsHeaders, payload }),
  fcm: fieldsOf(
    {
      ...{ android: orNull(android), notification: orNull(anyObject), data },
      apns: fieldsOf(
        { headers: apnsHeaders, payload, fcm_options: orNull(anyObject) },
        { live_activity_token: FOLLOWS_FROM_DEVICE },
      ),
      fcm_options: orNull(anyObject),
    },
    { token: RECIPIENT, topic: RECIPIENT, condition: RECIPIENT, name: RECIPIENT },
  ),
  web_push: fieldsOf({
    headers: fieldsOf({
      urgency: orNull(oneOf('very-low', 'low', 'normal', 'high')),
      topic: orNull(matching(TOPIC, '1 to 32 of A to Z, a to z, 0 to 9, - and _')),
    }),
    payload,
  }),
};

/** Finds what can't be accepted of a field of a request: recipients, tokens, and what Carillon makes itself. */
export function findFieldFault(name: ProviderField, value: unknown): FieldFault | undefined {
  return CHECKS[name](value, name);
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
