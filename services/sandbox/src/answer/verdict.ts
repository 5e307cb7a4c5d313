/** What a provider answers. */
export interface Verdict {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** A verdict with a JSON body. */
export function jsonVerdict(
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): Verdict {
  const text = JSON.stringify(body);
  return {
    status,
    headers: { 'content-type': 'application/json; charset=UTF-8', ...headers },
    body: text,
  };
}
