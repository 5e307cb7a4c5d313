import type { z } from 'zod';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { isObject } from '../transport/jwt.ts';
import { createFcmError, createFieldError } from './errors.ts';
import { BAD_TOKEN, type Message, requestSchema } from './message-schema.ts';

const MAX_DATA_BYTES = 4_096;
const MAX_APNS_BYTES = 4_096;
/** Data keys that Google reserves (Firebase, "Message" of the HTTP v1 API). */
const RESERVED_KEY = /^(from|message_type|google\..*|gcm\..*)$/;

/** Validates a parsed message of the HTTP v1 API and creates FCM's response. */
export function validateMessage(body: unknown, project: string): ProviderResponse {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = formatPath(issue?.path ?? []);
    return createFieldError(field, issue === undefined ? '' : describeIssue(issue, field));
  }
  const { message } = parsed.data;
  const fault = findDataFault(message) ?? findApnsFault(message);
  if (fault !== undefined) return createFieldError(...fault);
  const id = `0:${Date.now()}%${Math.random().toString(16).slice(2, 18)}`;
  return createJsonResponse(200, { name: `projects/${project}/messages/${id}` });
}

/** Formats the path of a field as Google does: `message.android.notification.body_loc_args[0]`. */
function formatPath(path: readonly PropertyKey[]): string {
  const parts = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`));
  return parts.join('').slice(1);
}

/** Describes a field that is unknown or has the wrong type, as Google does. */
function describeIssue(issue: z.core.$ZodIssue, field: string): string {
  if (issue.code === 'unrecognized_keys') {
    const place = field === '' ? '' : ` at '${field}'`;
    return `Invalid JSON payload received. Unknown name "${issue.keys[0]}"${place}: Cannot find field.`;
  }
  if (issue.message === BAD_TOKEN) return BAD_TOKEN;
  return `Invalid value at '${field}': ${issue.message}`;
}

/** Name of an invalid field, and its error. */
type Fault = [field: string, description: string];

/** Checks `data`, and `android.data` and `android.notification`, which replace those of all platforms on Android. */
function findDataFault({ data, notification, android = {} }: Message): Fault | undefined {
  const shown = { ...notification, ...android.notification };
  const shownBytes = Object.keys(shown).length === 0 ? 0 : byteLength(JSON.stringify(shown));
  return (
    findKeyFault('message.data', data) ??
    findKeyFault('message.android.data', android.data) ??
    findSizeFault(shownBytes + measureData(data)) ??
    findSizeFault(shownBytes + measureData(android.data))
  );
}

function findKeyFault(field: string, data: Message['data'] = {}): Fault | undefined {
  const reserved = Object.keys(data).find((key) => RESERVED_KEY.test(key));
  return reserved === undefined ? undefined : [field, `Invalid data payload key: ${reserved}`];
}

function findSizeFault(bytes: number): Fault | undefined {
  return bytes > MAX_DATA_BYTES ? ['message', 'Android message is too big'] : undefined;
}

function findApnsFault({ apns }: Message): Fault | undefined {
  const field = 'message.apns.payload';
  const { payload } = apns ?? {};
  if (payload === undefined) return undefined;
  if (!Object.hasOwn(payload, 'aps'))
    return [field, 'Payload of Apple Push Notification Service must contain an [aps] key.'];
  if (!isObject(payload.aps) || Object.keys(payload.aps).length === 0)
    return [`${field}.aps`, 'Value of [aps] must be a non-empty dictionary.'];
  return byteLength(JSON.stringify(payload)) > MAX_APNS_BYTES
    ? [field, 'The payload of APNs is too big']
    : undefined;
}

/** Reads the registration token of a message; empty when it has none. */
export function readToken(message: Record<string, unknown> | undefined): string {
  return typeof message?.token === 'string' ? message.token : '';
}

/** Reads the id of the push, which is in the payload of APNs for iOS; null when the message has none. */
export function readPushId(message: Record<string, unknown> | undefined): string | null {
  const apns = isObject(message?.apns) ? message.apns : {};
  const [id] = [message?.data, apns.payload].flatMap((fields) =>
    isObject(fields) && typeof fields._pushyId === 'string' ? [fields._pushyId] : [],
  );
  return id ?? null;
}

/** Creates the response for a missing or expired access token. */
export function createUnauthenticatedResponse(): ProviderResponse {
  const response = createFcmError('UNAUTHENTICATED');
  response.detail = 'authorization: no valid access token';
  response.headers['www-authenticate'] =
    'Bearer realm="https://accounts.google.com/", error="invalid_token"';
  return response;
}

function measureData(data: Message['data'] = {}): number {
  return Object.entries(data).reduce(
    (sum, [key, value]) => sum + byteLength(key) + byteLength(value),
    0,
  );
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}
