import type { ApiResponse } from '../stack/call-api.ts';
import type { Dev } from '../stack/dev-file.ts';

/**
 * `POST /push` with the header `Idempotency-Key`.
 *
 * @param body the JSON text, the same byte for byte in a repeat
 */
export async function pushWithIdempotencyKey(
  { api, apiKey }: Pick<Dev, 'api' | 'apiKey'>,
  key: string,
  body: string,
): Promise<ApiResponse<{ id: string; code?: string }>> {
  const response = await fetch(new URL(`/push?api_key=${apiKey}`, api), {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body,
  });
  const text = await response.text();
  const { status, headers } = response;
  return { status, headers, text, json: JSON.parse(text) as { id: string; code?: string } };
}
