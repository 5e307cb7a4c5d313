import type { ProviderChannelName } from '@carillon/core/channels';
import { createCounters, isAccepted, type RequestCounts } from './counters.ts';
import { createDuplicateDetector, type Duplicate } from './duplicates.ts';
import { createRingBuffer } from './ring-buffer.ts';

/** Fields of a logged provider request. */
export interface LoggedRequest {
  channel: ProviderChannelName;
  /** The provider token, or the Web Push endpoint. */
  to: string;
  /** The push id; null when the request does not show it. */
  push: string | null;
  /** The response status; null means no response. */
  status: number | null;
  /** The header or field that the provider refuses, and why: its response may not name it. */
  detail?: string | undefined;
  headers: Record<string, string>;
  /** The payload as JSON text; null when it is not JSON or can't be decrypted. */
  payload: string | null;
  /** The Apple environment that the client addressed. */
  environment?: string;
}

/** One entry of the request log. */
export interface RequestLogEntry extends LoggedRequest {
  /** Sequence number, starting at 1. */
  n: number;
  /** Time of arrival, Unix milliseconds. */
  at: number;
  /** The browser's acknowledgement code (100: delivered, 101: not decryptable). */
  acked?: number;
}

/** Selects entries; each field that is set must match. */
export interface RequestLogFilter {
  channel?: string;
  to?: string;
  push?: string;
}

/** Callbacks for new entries and for acknowledgements of browsers. */
export interface RequestLogListener {
  onReceived(entry: RequestLogEntry): void;
  onAcked(entry: RequestLogEntry): void;
}

export type RequestLog = ReturnType<typeof createRequestLog>;

/** Creates an empty log. It keeps the last 100,000 requests, or fewer if they are large; the counts include all. */
export function createRequestLog() {
  const ringBuffer = createRingBuffer<RequestLogEntry>();
  const counters = createCounters();
  const duplicates = createDuplicateDetector();
  const listeners = new Set<RequestLogListener>();
  let lastNumber = 0;

  return {
    append: (request: LoggedRequest): RequestLogEntry => {
      lastNumber += 1;
      const entry: RequestLogEntry = { n: lastNumber, at: Date.now(), ...request };
      ringBuffer.add(entry);
      counters.countRequest(request.channel, request.status);
      if (isAccepted(request.status) && request.push !== null)
        duplicates.recordAccepted(request.push, request.to);
      for (const listener of listeners) listener.onReceived(entry);
      return entry;
    },
    acknowledge: (entry: RequestLogEntry, code: number): void => {
      entry.acked = code;
      for (const listener of listeners) listener.onAcked(entry);
    },
    countConnection: counters.countConnection,
    /** Returns entries with a number above `after`, oldest first, at most `limit`. */
    read: (filter: RequestLogFilter, after: number, limit: number): RequestLogEntry[] => {
      const found: RequestLogEntry[] = [];
      for (const entry of ringBuffer.after(after)) {
        if (found.length === limit) break;
        if (matchesFilter(entry, filter)) found.push(entry);
      }
      return found;
    },
    /** Returns the number of the newest entry. */
    last: (): number => lastNumber,
    counts: (): RequestCounts & { duplicates: number; duplicatedPushes: Duplicate[] } => ({
      ...counters.read(),
      duplicates: duplicates.count(),
      duplicatedPushes: duplicates.list(),
    }),
    /** Deletes entries and counts; the numbering continues. */
    clear: (): void => {
      ringBuffer.clear();
      counters.clear();
      duplicates.clear();
    },
    /** @returns a function that unsubscribes */
    subscribe: (listener: RequestLogListener): (() => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Checks whether an entry matches a filter. */
export function matchesFilter(
  entry: RequestLogEntry,
  { channel, to, push }: RequestLogFilter,
): boolean {
  return (
    (channel === undefined || entry.channel === channel) &&
    (to === undefined || entry.to === to) &&
    (push === undefined || entry.push === push)
  );
}

/** Serializes an entry as one line of JSON. The payload is the last field and copied verbatim, so large numbers survive. */
export function serializeEntry({ payload, ...entry }: RequestLogEntry): string {
  // In JSON text a raw line break occurs only between tokens, where a space is equivalent.
  const oneLine = payload === null ? 'null' : payload.replace(/[\r\n]/g, ' ');
  return `${JSON.stringify(entry).slice(0, -1)},"payload":${oneLine}}`;
}
