import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { type ApiResponse, callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import type { Outcomes } from './history.ts';

const READS_AT_ONCE = 20;
/** How long a request is repeated that fails. */
const READ_FOR_MS = 30_000;
const RETRY_AFTER_MS = 500;
/** Times that an export may be cut and continued: with the pauses, as long as other requests are repeated. */
const MAX_CUTS = READ_FOR_MS / RETRY_AFTER_MS;
/** No other response below 500 becomes another one. */
const TOO_MANY_EXPORTS = 429;

type Dev = Pick<TestTenant['dev'], 'api' | 'apiKey'>;

/** Requests an export behind the row with a key; without one, from its beginning. Undefined if the API does not show it. */
export type OpenExport = (
  after: string | undefined,
) => Promise<AsyncIterable<Uint8Array> | undefined>;

/** Sends a GET request until the response is none of an outage. */
export function read<T = unknown>(dev: Dev, path: string): Promise<ApiResponse<T>> {
  const answered = async () => {
    const response = await callApi<T>(dev, 'GET', path);
    return response.status < 500 && response;
  };
  const what = `GET ${path}`;
  return until(answered, { timeoutMs: READ_FOR_MS, everyMs: RETRY_AFTER_MS, what });
}

/** Reads all pages of the recipients of a push. One that the API does not show has none. */
export async function readRecipients(dev: Dev, id: string): Promise<Outcomes['recipients']> {
  const recipients: Record<string, string> = {};
  let page: string | undefined;
  do {
    const query = page === undefined ? '' : `?page=${page}`;
    const { json } = await read<{
      recipients?: { token: string; outcome: string }[];
      next_page?: string;
    }>(dev, `/pushes/${id}/recipients${query}`);
    for (const { token, outcome } of json.recipients ?? []) recipients[token] = outcome;
    page = json.next_page;
  } while (page !== undefined);
  return recipients;
}

/** Returns a function that requests an export of an app, with parameters of its query. */
export function exportOf(
  { api, apiKey }: Dev,
  kind: 'pushes' | 'recipients',
  parameters: Readonly<Record<string, string>> = {},
): OpenExport {
  return async (after) => {
    const url = new URL(`/export/${kind}`, api);
    url.search = String(new URLSearchParams({ ...parameters, ...(after && { after }) }));
    const response = await fetch(url, { headers: { authorization: `Bearer ${apiKey}` } });
    if (response.status === 200 && response.body !== null) return response.body;
    const text = await response.text();
    if (response.status < 500 && response.status !== TOO_MANY_EXPORTS) return undefined;
    throw new Error(`${url.pathname}: ${response.status} ${text}`);
  };
}

/**
 * Reads an export in NDJSON, row by row as it arrives. An export that was cut, or refused because others are in progress, is
 * continued.
 *
 * @param keyOf returns the key of a row, behind which an export can be continued
 * @throws when it was cut too often
 */
export async function readExport<Row>(
  open: OpenExport,
  keyOf: (row: Row) => string,
  onRow: (row: Row) => void,
): Promise<void> {
  let after: string | undefined;
  let cause: unknown;
  for (let cuts = 0; cuts <= MAX_CUTS; cuts += 1) {
    if (cuts > 0) await sleep(RETRY_AFTER_MS);
    try {
      const chunks = await open(after);
      if (chunks === undefined) return;
      for await (const line of readLines(chunks)) {
        const row = JSON.parse(line) as Row & { complete?: boolean };
        // `false` means that recipients are still being added. What is missing is found by the counts.
        if (row.complete !== undefined) return;
        onRow(row);
        after = keyOf(row);
      }
    } catch (error) {
      cause = error;
    }
  }
  throw new Error(`an export was cut ${MAX_CUTS} times`, { cause });
}

/** Yields the lines of a text that arrives in pieces; a last one without a line break is incomplete and left out. */
async function* readLines(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

/** Calls a function for each of a list, for some of them at a time. */
export async function forEachAtOnce<T>(
  list: readonly T[],
  task: (one: T) => Promise<void>,
  atOnce: number = READS_AT_ONCE,
): Promise<void> {
  const remaining = [...list];
  const workNext = async () => {
    for (let one = remaining.pop(); one !== undefined; one = remaining.pop()) await task(one);
  };
  await Promise.all(Array.from({ length: atOnce }, workNext));
}
