import type { Dev } from './dev-file.ts';

/** A response of the API. `T` is what the test expects the body to be; nothing checks it. */
export interface ApiResponse<T> {
  status: number;
  json: T;
  text: string;
  headers: Headers;
}

/**
 * Calls the API with the stack's key.
 *
 * @param body an object is sent as JSON, a string as it is.
 * @throws when the server can't be reached or the body isn't JSON.
 */
export async function callApi<T = Record<string, unknown>>(
  dev: Pick<Dev, 'api' | 'apiKey'>,
  method: string,
  path: string,
  body?: unknown,
): Promise<ApiResponse<T>> {
  const url = new URL(path, dev.api);
  if (!url.searchParams.has('api_key')) url.searchParams.set('api_key', dev.apiKey);
  const response = await fetch(url, { method, ...(body === undefined ? {} : jsonInit(body)) });
  const text = await response.text();
  const { status, headers } = response;
  return { status, json: JSON.parse(text) as T, text, headers };
}

function jsonInit(body: unknown): RequestInit {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return { body: text, headers: { 'content-type': 'application/json' } };
}
