import { z } from 'zod';
import { createJsonResponse, type ProviderResponse } from '../response/provider-response.ts';
import { createFcmError, createFieldError } from './errors.ts';

const MAX_DATA_BYTES = 4_096;
const MONTH_SECONDS = 2_419_200;
const TOKEN = /^[\x21-\x7e]{1,4096}$/;
/** Data keys that Google reserves (Firebase, "Message" of the HTTP v1 API). */
const RESERVED_KEY = /^(from|message_type|google\..*|gcm\..*)$/;

const durationSchema = z.string().regex(/^\d+(\.\d{1,9})?s$/, 'Illegal duration format');
const androidSchema = z.looseObject({
  collapse_key: z.string().optional(),
  priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']).optional(),
  ttl: durationSchema
    .refine((text) => Number.parseFloat(text) <= MONTH_SECONDS, 'The TTL is over 4 weeks')
    .optional(),
});
const messageSchema = z.strictObject({
  token: z.string().regex(TOKEN, 'The registration token is not a valid FCM registration token'),
  data: z.record(z.string(), z.string()).optional(),
  notification: z.looseObject({}).optional(),
  android: androidSchema.optional(),
  apns: z.looseObject({}).optional(),
  webpush: z.looseObject({}).optional(),
  fcm_options: z.looseObject({}).optional(),
});
const requestSchema = z.strictObject({
  validate_only: z.boolean().optional(),
  message: messageSchema,
});

/** Validates a parsed message of the HTTP v1 API and creates FCM's response. */
export function validateMessage(body: unknown, project: string): ProviderResponse {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return createFieldError(issue?.path.join('.') ?? '', issue?.message ?? 'Invalid JSON payload');
  }
  const { data = {}, notification } = parsed.data.message;
  const reserved = Object.keys(data).find((key) => RESERVED_KEY.test(key));
  if (reserved !== undefined) {
    return createFieldError('message.data', `Invalid data payload key: ${reserved}`);
  }
  if (
    measureData(data) +
      (notification === undefined ? 0 : byteLength(JSON.stringify(notification))) >
    MAX_DATA_BYTES
  ) {
    return createFieldError('message', 'Android message is too big');
  }
  const id = `0:${Date.now()}%${Math.random().toString(16).slice(2, 18)}`;
  return createJsonResponse(200, { name: `projects/${project}/messages/${id}` });
}

/** Reads the registration token of a message; empty when it has none. */
export function readToken(message: Record<string, unknown> | undefined): string {
  return typeof message?.token === 'string' ? message.token : '';
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
