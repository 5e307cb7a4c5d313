import { describeError } from '@carillon/admin/admin-error';
import { z } from 'zod';
import { commandFailed, serviceUnreachable } from './failure.ts';

/** Timeout of a request, in milliseconds. */
const TIMEOUT_MS = 30_000;

/** Server that a request is for, as errors name it. */
type ServerName = 'API' | 'console';

/** Response of the API or the console, whatever its status. */
export interface ApiResponse {
  status: number;
  /** The body, unparsed. */
  text: string;
  /** Seconds of Retry-After; undefined when absent. */
  retryAfterSeconds: number | undefined;
}

/** Request to the API or the console. `body` is JSON text. */
export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  body?: string;
  /** Secret API Key, or operator token; devices have none. */
  key?: string;
  /** Value of the Idempotency-Key header. */
  idempotencyKey?: string;
}

/**
 * Calls the HTTP API or the console. The key is sent in a header, which is not logged.
 *
 * @throws Failure (unreachable) when there is no response within 30 s
 */
export async function callApi(
  base: string,
  { method, path, body, key, idempotencyKey }: ApiRequest,
  server: ServerName = 'API',
): Promise<ApiResponse> {
  const headers = {
    ...(body !== undefined && { 'content-type': 'application/json' }),
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  };
  try {
    const response = await fetch(`${base.replace(/\/$/, '')}${path}`, {
      method,
      headers,
      signal: AbortSignal.timeout(TIMEOUT_MS),
      // Requests to the console have private keys, which a redirect could lead to another server.
      redirect: server === 'console' ? 'error' : 'follow',
      ...(body !== undefined && { body }),
    });
    const retryAfterSeconds = Number(response.headers.get('retry-after') ?? Number.NaN);
    return {
      status: response.status,
      text: await response.text(),
      retryAfterSeconds: Number.isNaN(retryAfterSeconds) ? undefined : retryAfterSeconds,
    };
  } catch (error) {
    throw serviceUnreachable(`The ${server} at ${base} can't be reached: ${describeError(error)}.`);
  }
}

/**
 * Calls the HTTP API and returns the JSON text of a successful response.
 *
 * @throws Failure with the API's response when the status is not 200
 */
export async function requestApi(base: string, request: ApiRequest): Promise<string> {
  const response = await callApi(base, request);
  if (response.status === 200) return response.text;
  throw toApiFailure(base, response);
}

/** Converts an unsuccessful response to a failure. */
export function toApiFailure(
  base: string,
  { status, text }: ApiResponse,
  server: ServerName = 'API',
): Error {
  const error = parseApiError(text);
  if (error === undefined)
    return commandFailed(
      `The server at ${base} (HTTP ${status}) is not ${server === 'API' ? 'Carillon' : "Carillon's console"}.`,
    );
  const code = error.code === undefined ? `HTTP ${status}` : error.code;
  return commandFailed(`The ${server} returned an error: ${error.error} (${code})`, text);
}

const errorBody = z.object({ code: z.string().optional(), error: z.string() });

/** Parses the body of an error response; undefined when it is not an error of the API or the console. */
export function parseApiError(text: string): z.infer<typeof errorBody> | undefined {
  try {
    return errorBody.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
