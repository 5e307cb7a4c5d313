import type { ResponseOf, Routed } from './response-of.ts';
import type { ConsoleApi, ErrorBody } from './types.ts';

const UNREADABLE: ErrorBody = {
  code: 'UNREADABLE',
  error: 'The answer is not from the console. A proxy in between may have changed it.',
};

/** Error response of the dashboard, or a request that did not reach it. */
export class RequestError extends Error {
  readonly code: string;
  readonly status: number;
  readonly requestId: string | undefined;
  /** Name of the parameter of a push that is not valid. */
  readonly parameter: string | undefined;

  constructor(status: number, body: ErrorBody) {
    super(body.error);
    this.code = body.code;
    this.status = status;
    this.requestId = body.requestId;
    this.parameter = body.parameter;
  }
}

/** Values of a query string; undefined and empty ones are left out. */
export type Query = Record<string, string | number | undefined>;

let csrfToken: string | undefined;

/** Sets the token that changing requests carry. */
export function setCsrfToken(token: string | undefined): void {
  csrfToken = token;
}

/** Builds a path with its query string. */
export function pathWith<Path extends string>(
  path: Path,
  query: Query = {},
): Path | `${Path}?${string}` {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  const text = search.toString();
  return text === '' ? path : `${path}?${text}`;
}

/**
 * Reads from the API.
 *
 * @param path below /api
 * @throws RequestError
 */
export function get<const Path extends string>(
  path: Path & Routed<'get', Path>,
  query?: Query,
  signal?: AbortSignal,
): Promise<ResponseOf<'get', Path>> {
  return send('GET', pathWith(path, query), undefined, signal);
}

/**
 * Changes something through the API.
 *
 * @param path below /api
 * @throws RequestError
 */
export function change<
  Method extends 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  const Path extends string,
>(
  method: Method,
  path: Path & Routed<Method, Path>,
  body?: unknown,
): Promise<ResponseOf<Method, Path>> {
  return send(method, path, body === undefined ? undefined : JSON.stringify(body));
}

/**
 * Sends a JSON text as it is: JavaScript would round the large numbers of a payload.
 *
 * @param path below /api
 * @param idempotencyKey the same for each try of one request
 * @throws RequestError
 */
export function postText<const Path extends string>(
  path: Path & Routed<'post', Path>,
  json: string,
  idempotencyKey: string,
): Promise<ResponseOf<'post', Path>> {
  return send('POST', path, json, undefined, { 'idempotency-key': idempotencyKey });
}

/**
 * Reads what a one-time link is for. Its token is sent in a header, because proxies log paths.
 *
 * @throws RequestError
 */
export function getSetupLink(token: string): Promise<ConsoleApi['get /setup']> {
  return send('GET', '/setup', undefined, undefined, { 'x-setup-token': token });
}

async function send<T>(
  method: string,
  path: string,
  body?: string,
  signal?: AbortSignal,
  headers?: Record<string, string>,
): Promise<T> {
  const response = await reach(`/api${path}`, {
    method,
    credentials: 'same-origin',
    headers: {
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(method !== 'GET' && csrfToken !== undefined && { 'x-csrf-token': csrfToken }),
      ...headers,
    },
    ...(body !== undefined && { body }),
    ...(signal !== undefined && { signal }),
  });
  if (response.status === 204) return undefined as T;
  const json: unknown = await response.json().catch(() => undefined);
  if (response.ok && json !== undefined) return json as T;
  const error = isErrorBody(json) ? json : UNREADABLE;
  const requestId = error.requestId ?? response.headers.get('x-request-id') ?? undefined;
  throw new RequestError(response.status, {
    ...error,
    ...(requestId !== undefined && { requestId }),
  });
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new RequestError(0, {
      code: 'UNREACHABLE',
      error: 'The console’s server does not answer. Check the network, then try again.',
    });
  }
}

function isErrorBody(json: unknown): json is ErrorBody {
  return typeof json === 'object' && json !== null && 'code' in json && 'error' in json;
}
