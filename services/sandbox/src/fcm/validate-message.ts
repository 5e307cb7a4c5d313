import { z } from 'zod';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { isObject } from '../transport/jwt.ts';
import { createFcmError, createFieldError } from './errors.ts';

const MAX_DATA_BYTES = 4_096;
const MAX_APNS_BYTES = 4_096;
const MONTH_SECONDS = 2_419_200;
const TOKEN = /^[\x21-\x7e]{1,4096}$/;
/** Data keys that Google reserves (Firebase, "Message" of the HTTP v1 API). */
const RESERVED_KEY = /^(from|message_type|google\..*|gcm\..*)$/;

const durationSchema = z.string().regex(/^\d+(\.\d{1,9})?s$/, 'Illegal duration format');
const androidSchema = z.strictObject({
  collapse_key: z.string().optional(),
  priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']).optional(),
  ttl: durationSchema
    .refine((text) => Number.parseFloat(text) <= MONTH_SECONDS, 'The TTL is over 4 weeks')
    .optional(),
  restricted_package_name: z.string().optional(),
  data: z.record(z.string(), z.string()).optional(),
  notification: z.looseObject({}).optional(),
  fcm_options: z.looseObject({}).optional(),
  direct_boot_ok: z.boolean().optional(),
  bandwidth_constrained_ok: z.boolean().optional(),
  restricted_satellite_ok: z.boolean().optional(),
});
const notificationSchema = z.strictObject({
  title: z.string().optional(),
  body: z.string().optional(),
  image: z.string().optional(),
});
const apnsSchema = z.strictObject({
  headers: z.record(z.string(), z.string()).optional(),
  payload: z.custom<Record<string, unknown>>(isObject, 'expected an object').optional(),
  fcm_options: z.looseObject({}).optional(),
  live_activity_token: z.string().optional(),
});
const messageSchema = z.strictObject({
  token: z.string().regex(TOKEN, 'The registration token is not a valid FCM registration token'),
  data: z.record(z.string(), z.string()).optional(),
  notification: notificationSchema.optional(),
  android: androidSchema.optional(),
  apns: apnsSchema.optional(),
  webpush: z.looseObject({}).optional(),
  fcm_options: z.looseObject({}).optional(),
});
const requestSchema = z.strictObject({
  validate_only: z.boolean().optional(),
  message: messageSchema,
});
type Message = z.infer<typeof messageSchema>;

/** Validates a parsed message of the HTTP v1 API and creates FCM's response. */
export function validateMessage(body: unknown, project: string): ProviderResponse {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = issue?.path.join('.') ?? '';
    return createFieldError(field, issue === undefined ? '' : describeIssue(issue, field));
  }
  const { message } = parsed.data;
  const fault = findDataFault(message) ?? findApnsFault(message);
  if (fault !== undefined) return createFieldError(...fault);
  const id = `0:${Date.now()}%${Math.random().toString(16).slice(2, 18)}`;
  return createJsonResponse(200, { name: `projects/${project}/messages/${id}` });
}

/** Describes a field that is unknown or has the wrong type, as Google does. */
function describeIssue(issue: z.core.$ZodIssue, field: string): string {
  if (issue.code === 'unrecognized_keys') {
    const place = field === '' ? '' : ` at '${field}'`;
    return `Invalid JSON payload received. Unknown name "${issue.keys[0]}"${place}: Cannot find field.`;
  }
  if (issue.code === 'custom' || issue.code === 'invalid_type')
    return `Invalid value at '${field}': ${issue.message}`;
  return issue.message;
}

/** Name of an invalid field, and its error. */
type Fault = [field: string, description: string];

function findDataFault({ data = {}, notification }: Message): Fault | undefined {
  const reserved = Object.keys(data).find((key) => RESERVED_KEY.test(key));
  if (reserved !== undefined) return ['message.data', `Invalid data payload key: ${reserved}`];
  const bytes =
    measureData(data) + (notification === undefined ? 0 : byteLength(JSON.stringify(notification)));
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
  response.headers['www-authenticate'] =
    'Bearer realm="https://accounts.google.com/", error="invalid_token"';
  return response;
}

function measureData(data: Record<string, string>): number {
  return Object.entries(data).reduce(
    (sum, [key, value]) => sum + byteLength(key) + byteLength(value),
    0,
  );
}

function byteLength(text: string): number {
  return Buffer.byteLength(text);
}
