import { ApiError } from '@carillon/core/api-error';
import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import type { PushOptions } from '@carillon/store/documents';
import { z } from 'zod';
import { fieldText } from '../http/json-text.ts';
import type { Body } from '../http/route.ts';

/** A request to send, as checked as it can be without looking anything up. */
export interface PushRequest {
  /** Without doubles, in the order given. */
  tokens: string[];
  topics: string[];
  /** JSON text. */
  data: string;
  timeToLiveSeconds: number;
  /** When to send, milliseconds since 1970; undefined: now. */
  dueAtMs?: number;
  options: PushOptions;
}

const TOPIC_PREFIX = '/topics/';

const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'] as const;
const text = z.string().max(LIMITS.payloadCharacters);

/** Apple's sound dictionary for critical alerts; the specification leaves its fields open. */
const sound = z.union([
  text,
  z.object({
    critical: z.union([z.literal(0), z.literal(1), z.boolean()]).optional(),
    name: text.optional(),
    volume: z.number().min(0).max(1).optional(),
  }),
]);

/** Specification 4.1, `notification`. */
const notification = z.object({
  title: text.optional(),
  body: text.optional(),
  badge: z.int().min(0).optional(),
  sound: sound.optional(),
  category: text.optional(),
  // Symfony's bridge sends a number.
  thread_id: z.union([text, z.number().transform(String)]).optional(),
  interruption_level: z.enum(INTERRUPTION_LEVELS).optional(),
  loc_key: text.optional(),
  loc_args: z.array(text).optional(),
  title_loc_key: text.optional(),
  title_loc_args: z.array(text).optional(),
});

const strings = z.custom<string[]>(
  // A bare loop: checking 100,000 items one schema each takes 20 times as long.
  (value) => Array.isArray(value) && value.every((item) => typeof item === 'string'),
  'must be an array of strings',
);

/** Specification 4.1; unknown fields are ignored. */
const pushBody = z.object({
  to: z.union([z.string(), strings], 'must be a string or an array of strings').optional(),
  tokens: strings.optional(),
  registration_ids: strings.optional(),
  data: z.record(z.string(), z.unknown(), 'must be an object'),
  time_to_live: z.int().min(0).max(LIMITS.timeToLiveMax).default(LIMITS.timeToLiveDefault),
  content_available: z.boolean().optional(),
  mutable_content: z.boolean().optional(),
  notification: notification.optional(),
  schedule: z.int().min(0).optional(),
  collapse_key: z.string().min(1).max(LIMITS.collapseKeyCharacters).optional(),
});
type PushBody = z.infer<typeof pushBody>;

/**
 * Reads the body of `POST /push`.
 *
 * @param nowMs MongoDB's time
 * @throws ApiError INVALID_PARAM, PAYLOAD_LIMIT_EXCEEDED
 */
export function parsePush(body: Body, app: { payloadLimit?: number }, nowMs: number): PushRequest {
  // `data` isn't walked: it is kept as text, and its keys may be anything.
  const { data, ...fields } = body.value;
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  const parsed = pushBody.safeParse({ ...fields, data: isObject ? {} : data });
  if (!parsed.success) throw new ApiError('INVALID_PARAM', firstFault(parsed.error));
  const payload = fieldText(body.text, 'data') ?? '';
  if (payload.length > (app.payloadLimit ?? LIMITS.payloadCharacters)) {
    throw new ApiError('PAYLOAD_LIMIT_EXCEEDED');
  }
  const dueAtMs = scheduled(parsed.data.schedule, nowMs);
  return {
    ...audience(parsed.data),
    data: payload,
    timeToLiveSeconds: parsed.data.time_to_live,
    ...(dueAtMs !== undefined && { dueAtMs }),
    options: options(parsed.data),
  };
}

function firstFault(error: z.ZodError): string {
  const [issue] = error.issues;
  const name = issue?.path.join('.') ?? '';
  return `The parameter "${name}" is missing or invalid: ${issue?.message ?? 'unknown'}.`;
}

/** Tokens and topics from `to`, `tokens` and `registration_ids` together, without doubles. */
function audience(body: PushBody): { tokens: string[]; topics: string[] } {
  const to = typeof body.to === 'string' ? [body.to] : (body.to ?? []);
  if (body.to === undefined && body.tokens === undefined && body.registration_ids === undefined) {
    throw new ApiError('INVALID_PARAM', 'The parameter "to" is missing.');
  }
  const tokens = new Set<string>();
  const topics = new Set<string>();
  for (const list of [to, body.tokens ?? [], body.registration_ids ?? []]) {
    for (const item of list) {
      if (item.startsWith(TOPIC_PREFIX)) topics.add(topicName(item));
      else tokens.add(item);
    }
  }
  if (tokens.size > LIMITS.tokensPerPush) {
    throw new ApiError('INVALID_PARAM', `A push takes at most ${LIMITS.tokensPerPush} tokens.`);
  }
  if (topics.size > LIMITS.topicsPerPush) {
    throw new ApiError('INVALID_PARAM', `A push takes at most ${LIMITS.topicsPerPush} topics.`);
  }
  return { tokens: [...tokens], topics: [...topics] };
}

function topicName(recipient: string): string {
  const name = recipient.slice(TOPIC_PREFIX.length);
  if (TOPIC_NAME.test(name)) return name;
  throw new ApiError('INVALID_PARAM', 'A topic name must match [a-zA-Z0-9-_.]{1,100}.');
}

function scheduled(schedule: number | undefined, nowMs: number): number | undefined {
  if (schedule === undefined) return undefined;
  const ahead = schedule - nowMs / 1_000;
  if (ahead > 0 && ahead <= LIMITS.scheduleAheadMax) return schedule * 1_000;
  throw new ApiError(
    'INVALID_PARAM',
    'The parameter "schedule" must be a future unix timestamp in seconds, at most one year ahead.',
  );
}

function options(body: PushBody): PushOptions {
  return {
    ...(body.collapse_key !== undefined && { collapseKey: body.collapse_key }),
    ...(body.content_available !== undefined && { contentAvailable: body.content_available }),
    ...(body.mutable_content !== undefined && { mutableContent: body.mutable_content }),
    ...(body.notification !== undefined && { notification: body.notification }),
  };
}
