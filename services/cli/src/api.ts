import { z } from 'zod';
import { reasonOf, refused, unreachable } from './failure.ts';

const DEADLINE_MS = 30_000;

/** What the API answered; nothing is judged yet. */
export interface ApiAnswer {
  status: number;
  /** The body as it came. */
  text: string;
  /** Seconds to wait, as far as the server says. */
  retryAfter: number | undefined;
}

/** One request. `body` is JSON text. */
export interface ApiRequest {
  method: 'GET' | 'POST';
  path: string;
  body?: string;
  /** The Secret API Key; devices have none. */
  key?: string;
}

/**
 * Calls the HTTP API. The key goes into a header, which stays out of logs.
 *
 * @throws Failure (unreachable) when there is no answer within 30 s
 */
export async function callApi(
  base: string,
  { method, path, body, key }: ApiRequest,
): Promise<ApiAnswer> {
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
  };
  try {
    const response = await fetch(`${base.replace(/\/$/, '')}${path}`, {
      method,
      headers,
      signal: AbortSignal.timeout(DEADLINE_MS),
      ...(body !== undefined && { body }),
    });
    const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
    return {
      status: response.status,
      text: await response.text(),
      retryAfter: Number.isNaN(retryAfter) ? undefined : retryAfter,
    };
  } catch (error) {
    throw unreachable(`The API at ${base} can't be reached: ${reasonOf(error)}.`);
  }
}

/**
 * Calls the HTTP API and gives the JSON text of its success.
 *
 * @throws Failure with the API's own answer when it is another
 */
export async function askApi(base: string, request: ApiRequest): Promise<string> {
  const answer = await callApi(base, request);
  if (answer.status === 200) return answer.text;
  throw apiRefusal(base, answer);
}

/** The failure that an answer other than success is. */
export function apiRefusal(base: string, { status, text }: ApiAnswer): Error {
  const error = errorIn(text);
  if (error === undefined)
    return refused(`What answers at ${base} (HTTP ${status}) is no Carillon.`);
  const code = error.code === undefined ? `HTTP ${status}` : error.code;
  return refused(`The API refused: ${error.error} (${code})`, text);
}

const errorBody = z.object({ code: z.string().optional(), error: z.string() });

/** The error that an answer's body tells; undefined when it isn't one of the API's. */
export function errorIn(text: string): z.infer<typeof errorBody> | undefined {
  try {
    return errorBody.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
