import { ApiError } from '@carillon/core/api-error';
import { LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import type { AppDocument, PushOptions } from '@carillon/store/documents';
import { check } from '../http/check.ts';
import { compact, fieldText, parseJsonObject } from '../http/json-text.ts';
import type { Body } from '../http/route.ts';
import { type PushBody, pushBody } from './schema.ts';

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

/** What an app allows in its pushes. */
export type PushSettings = Pick<AppDocument, 'payloadLimit' | 'dataString'>;

/**
 * Reads the body of `POST /push`.
 *
 * @param nowMs MongoDB's time
 * @throws ApiError INVALID_PARAM, PAYLOAD_LIMIT_EXCEEDED
 */
export function parsePush(body: Body, app: PushSettings, nowMs: number): PushRequest {
  const payload = payloadText(body, app.dataString === true);
  // `data` isn't walked: it is kept as text, and its keys may be anything.
  const value = { ...body.value, data: payload === undefined ? body.value.data : {} };
  const fields = check(pushBody, value);
  if (payload === undefined) throw new ApiError('INVALID_PARAM');
  if (payload.length > (app.payloadLimit ?? LIMITS.payloadCharacters)) {
    throw new ApiError('PAYLOAD_LIMIT_EXCEEDED');
  }
  const dueAtMs = scheduled(fields.schedule, nowMs);
  return {
    ...audience(fields),
    data: payload,
    timeToLiveSeconds: fields.time_to_live,
    ...(dueAtMs !== undefined && { dueAtMs }),
    options: options(fields),
  };
}

/** The payload's JSON text; undefined if it is no object. */
function payloadText({ text, value }: Body, takesString: boolean): string | undefined {
  const { data } = value;
  if (typeof data === 'string' && takesString) {
    parseJsonObject(data, LIMITS.payloadDepth);
    return compact(data);
  }
  const isObject = typeof data === 'object' && data !== null && !Array.isArray(data);
  return isObject ? fieldText(text, 'data') : undefined;
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
  const dueAtMs = schedule * 1_000;
  if (dueAtMs > nowMs && dueAtMs <= aYearAfter(nowMs)) return dueAtMs;
  throw new ApiError(
    'INVALID_PARAM',
    'The parameter "schedule" must be a future unix timestamp in seconds, at most one year ahead.',
  );
}

/** The same moment a calendar year later, in UTC. */
function aYearAfter(ms: number): number {
  const date = new Date(ms);
  return date.setUTCFullYear(date.getUTCFullYear() + 1);
}

function options(body: PushBody): PushOptions {
  return {
    ...(body.collapse_key !== undefined && { collapseKey: body.collapse_key }),
    ...(body.content_available !== undefined && { contentAvailable: body.content_available }),
    ...(body.mutable_content !== undefined && { mutableContent: body.mutable_content }),
    ...(body.notification !== undefined && { notification: body.notification }),
  };
}
