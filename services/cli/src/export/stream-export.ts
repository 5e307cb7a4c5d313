import { describeError } from '@carillon/admin/admin-error';
import { parseApiError, toApiFailure } from '../api-client.ts';
import { commandFailed, serviceUnreachable } from '../failure.ts';
import type { RecordFormat } from '../records/read-records.ts';

/** Data that an app can export. */
export const EXPORT_KINDS = ['devices', 'subscriptions', 'pushes', 'recipients'] as const;
export type ExportKind = (typeof EXPORT_KINDS)[number];

/** An export to request. */
export interface ExportRequest {
  base: string;
  key: string;
  kind: ExportKind;
  format: RecordFormat;
  push?: string | undefined;
  /** Continues behind this row. */
  after?: string | undefined;
  signal: AbortSignal;
}

/** An export can't be continued now: the connection was cut, or the app has too many exports in progress. */
export class InterruptedExport extends Error {
  readonly retryAfterSeconds: number;

  constructor(message: string, retryAfterSeconds: number) {
    super(message);
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Delay of a retry without a Retry-After. */
const DEFAULT_RETRY_SECONDS = 1;
/** HTTP status of a response when the app has too many exports in progress. */
const TOO_MANY_REQUESTS = 429;

/**
 * Requests an export and yields its text as it arrives, in pieces that end anywhere.
 *
 * @throws InterruptedExport when a repetition can succeed, Failure for any other response of the API
 */
export async function* streamExport(request: ExportRequest): AsyncGenerator<Uint8Array> {
  const { base, key, signal } = request;
  let response: Response;
  try {
    response = await fetch(exportUrl(request), {
      headers: { authorization: `Bearer ${key}` },
      signal,
    });
  } catch (error) {
    if (signal.aborted) throw commandFailed('The export was stopped.');
    throw serviceUnreachable(`The API at ${base} can't be reached: ${describeError(error)}.`);
  }
  if (response.status !== 200) throw await toError(base, response);
  try {
    for await (const chunk of response.body ?? []) yield chunk as Uint8Array;
  } catch (error) {
    if (signal.aborted) throw commandFailed('The export was stopped.');
    throw new InterruptedExport(describeError(error), DEFAULT_RETRY_SECONDS);
  }
}

function exportUrl({ base, kind, format, push, after }: ExportRequest): string {
  const query = new URLSearchParams({ format });
  if (push !== undefined) query.set('push', push);
  if (after !== undefined) query.set('after', after);
  return `${base.replace(/\/$/, '')}/export/${kind}?${query}`;
}

async function toError(base: string, response: Response): Promise<Error> {
  const text = await response.text();
  const retryAfterSeconds = Number(response.headers.get('retry-after') ?? DEFAULT_RETRY_SECONDS);
  if (response.status === TOO_MANY_REQUESTS)
    return new InterruptedExport(parseApiError(text)?.error ?? 'too many', retryAfterSeconds);
  return toApiFailure(base, { status: response.status, text, retryAfterSeconds });
}
