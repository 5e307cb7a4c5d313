import { z } from 'zod';
import { jsonVerdict, type Verdict } from '../answer/verdict.ts';
import { fcmError, fieldFault } from './errors.ts';

const MOST_BYTES = 4_096;
const MONTH_SECONDS = 2_419_200;
const TOKEN = /^[\x21-\x7e]{1,4096}$/;
/** Keys of data that Google keeps for itself (Firebase, "Message" of the HTTP v1 API). */
const RESERVED_KEY = /^(from|message_type|google\..*|gcm\..*)$/;

const seconds = z.string().regex(/^\d+(\.\d{1,9})?s$/, 'Illegal duration format');
const android = z.looseObject({
  collapse_key: z.string().optional(),
  priority: z.enum(['NORMAL', 'HIGH', 'normal', 'high']).optional(),
  ttl: seconds
    .refine((text) => Number.parseFloat(text) <= MONTH_SECONDS, 'The TTL is over 4 weeks')
    .optional(),
});
const messageSchema = z.strictObject({
  token: z.string().regex(TOKEN, 'The registration token is not a valid FCM registration token'),
  data: z.record(z.string(), z.string()).optional(),
  notification: z.looseObject({}).optional(),
  android: android.optional(),
  apns: z.looseObject({}).optional(),
  webpush: z.looseObject({}).optional(),
  fcm_options: z.looseObject({}).optional(),
});
const requestSchema = z.strictObject({
  validate_only: z.boolean().optional(),
  message: messageSchema,
});

/** What FCM answers to a message of its HTTP v1 API, given the body as JSON. */
export function judge(body: unknown, project: string): Verdict {
  const parsed = requestSchema.safeParse(body);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    return fieldFault(issue?.path.join('.') ?? '', issue?.message ?? 'Invalid JSON payload');
  }
  const { data = {}, notification } = parsed.data.message;
  const reserved = Object.keys(data).find((key) => RESERVED_KEY.test(key));
  if (reserved !== undefined) {
    return fieldFault('message.data', `Invalid data payload key: ${reserved}`);
  }
  if (
    sizeOf(data) + (notification === undefined ? 0 : bytesOf(JSON.stringify(notification))) >
    MOST_BYTES
  ) {
    return fieldFault('message', 'Android message is too big');
  }
  const id = `0:${Date.now()}%${Math.random().toString(16).slice(2, 18)}`;
  return jsonVerdict(200, { name: `projects/${project}/messages/${id}` });
}

/** Whom a message is for, as far as it can be read. */
export function tokenOf(message: Record<string, unknown> | undefined): string {
  return typeof message?.token === 'string' ? message.token : '';
}

/** The answer to who has no access token that is alive. */
export function unauthenticated(): Verdict {
  const verdict = fcmError('UNAUTHENTICATED');
  verdict.headers['www-authenticate'] =
    'Bearer realm="https://accounts.google.com/", error="invalid_token"';
  return verdict;
}

function sizeOf(data: Record<string, string>): number {
  return Object.entries(data).reduce((sum, [key, value]) => sum + bytesOf(key) + bytesOf(value), 0);
}

function bytesOf(text: string): number {
  return Buffer.byteLength(text);
}
