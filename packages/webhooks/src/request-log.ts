import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';
import { newRequestId } from '@carillon/core/ids';
import type { WebhookRequestDocument } from './requests.ts';
import type { WebhookStore } from './webhook-store.ts';
import type { WebhookResponse } from './webhooks.ts';

/** Bytes of a response's body that are kept. */
const ANSWER_BYTES = 1_024;
/** Requests that are recorded at once, so that a run keeps little in memory. */
const MAX_BUFFERED = 20;
/** Interval of the records of a run that sends many requests. */
const RECORD_EVERY_MS = 1_000;
/** How long the end of a run waits for bodies of responses that have not ended. */
const BODY_WAIT_MS = 1_000;

/** A request to record. */
export interface LoggedRequest {
  events: readonly { id: string; type: string }[];
  bytes: number;
  attempt?: number | undefined;
  resendOf?: string | undefined;
}

/** The requests of one run that are not recorded yet. */
export type RequestLog = ReturnType<typeof createRequestLog>;

/**
 * Creates the log of a run's requests to a webhook. It delays no request and never throws: a record that can't be written
 * is lost, and so are those of the last second of a process that is killed.
 *
 * @param now milliseconds since 1970
 */
export function createRequestLog(
  { webhookRequests }: Pick<WebhookStore, 'webhookRequests'>,
  webhook: string,
  now: () => number,
  onError: (error: unknown) => void,
) {
  const buffered: WebhookRequestDocument[] = [];
  const pendingBodies = new Set<Promise<void>>();
  let recordedAt = performance.now();

  async function record(): Promise<void> {
    recordedAt = performance.now();
    const documents = buffered.splice(0);
    if (documents.length > 0) await webhookRequests.record(webhook, documents).catch(onError);
  }

  return {
    /** Notes a request that is about to be sent. */
    start({ events, ...facts }: LoggedRequest) {
      const at = now();
      const startedAt = performance.now();
      const body = Promise.withResolvers<void>();
      let answer = '';
      let document: WebhookRequestDocument | undefined;
      return {
        /** Takes the start of the response's body. */
        onAnswer(start: Buffer): void {
          answer = toReadable(start);
          if (document !== undefined && answer !== '') document.answer = answer;
          body.resolve();
        },
        /** Notes the response. */
        end(response: WebhookResponse): void {
          document = toDocument({ webhook, at, startedAt, events, ...facts }, response);
          if (answer !== '') document.answer = answer;
          buffered.push(document);
          if ('error' in response) return;
          pendingBodies.add(body.promise);
          void body.promise.then(() => pendingBodies.delete(body.promise));
        },
      };
    },
    /** Records what was noted if it is much or some time ago. */
    async recordIfDue(): Promise<void> {
      const isDue = performance.now() - recordedAt >= RECORD_EVERY_MS;
      if (isDue || buffered.length >= MAX_BUFFERED) await record();
    },
    /** Records all that was noted, at the end of a run. */
    async close(): Promise<void> {
      if (pendingBodies.size > 0) {
        const waiting = new AbortController();
        const timeout = sleep(BODY_WAIT_MS, undefined, { signal: waiting.signal });
        await Promise.race([Promise.all(pendingBodies), timeout]);
        waiting.abort();
        await timeout.catch(() => undefined);
      }
      await record();
    },
  };
}

function toDocument(
  {
    webhook,
    at,
    startedAt,
    events,
    bytes,
    attempt,
    resendOf,
  }: LoggedRequest & { webhook: string; at: number; startedAt: number },
  response: WebhookResponse,
): WebhookRequestDocument {
  const byType = Map.groupBy(events, ({ type }) => type);
  const types = [...byType].map(([type, { length }]) => ({ type, count: length }));
  return {
    ...{ _id: newRequestId(at), webhook, at: new Date(at) },
    ...('status' in response ? { status: response.status } : { error: response.error }),
    milliseconds: Math.round(performance.now() - startedAt),
    ...{ events: events.map(({ id }) => id), types, bytes },
    ...(attempt !== undefined && { attempt }),
    ...(resendOf !== undefined && { resendOf }),
  };
}

/**
 * Converts the start of a body to text that a terminal or page can show: wrong bytes become U+FFFD, and control and
 * formatting characters but tabs and line feeds are removed.
 */
function toReadable(start: Buffer): string {
  // Unlike `toString`, it leaves out a character that is cut at the end.
  const text = new StringDecoder('utf8').write(start.subarray(0, ANSWER_BYTES));
  return text.replace(/(?![\t\n])[\p{Cc}\p{Cf}]/gu, '');
}
