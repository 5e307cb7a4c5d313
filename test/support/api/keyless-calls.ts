import type { ApiResponse } from '../stack/call-api.ts';

/** Calls the API without a key, unless the path or the headers have one. */
export async function callWithoutKey<T = Record<string, unknown>>(
  base: string,
  path: string,
  init: RequestInit = {},
): Promise<ApiResponse<T>> {
  const response = await fetch(new URL(path, base), init);
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, json: JSON.parse(text) as T };
}

/** A POST of JSON without a key, as devices do it; a string is sent as it is. */
export function postWithoutKey<T = Record<string, unknown>>(
  base: string,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<ApiResponse<T>> {
  return callWithoutKey<T>(base, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}
