/** A provider's HTTP response. */
export interface ProviderResponse {
  status: number;
  headers: Record<string, string>;
  body: string;
  /** The header or field that is refused, for the request log; clients don't get it. */
  detail?: string | undefined;
}

/** Creates a response with a JSON body. */
export function createJsonResponse(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): ProviderResponse {
  const text = JSON.stringify(body);
  return {
    status,
    headers: { 'content-type': 'application/json; charset=UTF-8', ...headers },
    body: text,
  };
}
