import {
  matchesFilter,
  type RequestLog,
  type RequestLogEntry,
  type RequestLogFilter,
  serializeEntry,
} from '../request-log/request-log.ts';
import type { RequestContext } from './route.ts';

const MAX_BUFFERED_BYTES = 16_777_216;
const MAX_REPLAYED_ENTRIES = 10_000;
const HEARTBEAT_INTERVAL_MS = 15_000;

/**
 * Streams new entries as Server-Sent Events, and acknowledgements of browsers as `acked` events. A client that
 * reconnects with Last-Event-ID gets the entries it missed; one that does not read is disconnected.
 */
export function streamEvents(
  requestLog: RequestLog,
  { request, response, query }: RequestContext,
): void {
  const filter = parseFilter(query);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.write(':\n\n');
  const send = (text: string) => {
    response.write(text);
    if (response.writableLength > MAX_BUFFERED_BYTES) response.destroy();
  };
  const sendEntry = (entry: RequestLogEntry) =>
    send(`id: ${entry.n}\ndata: ${serializeEntry(entry)}\n\n`);
  const lastEventId = Number(request.headers['last-event-id'] ?? Number.NaN);
  if (Number.isInteger(lastEventId))
    requestLog.read(filter, lastEventId, MAX_REPLAYED_ENTRIES).forEach(sendEntry);
  const unsubscribe = requestLog.subscribe({
    onReceived: (entry) => {
      if (matchesFilter(entry, filter)) sendEntry(entry);
    },
    onAcked: (entry) => {
      if (matchesFilter(entry, filter)) send(`event: acked\ndata: ${serializeAck(entry)}\n\n`);
    },
  });
  const heartbeat = setInterval(() => response.write(':\n\n'), HEARTBEAT_INTERVAL_MS);
  response.once('close', () => {
    clearInterval(heartbeat);
    unsubscribe();
  });
}

function serializeAck({ n, channel, to, push, acked }: RequestLogEntry): string {
  return JSON.stringify({ n, channel, to, push, acked });
}

/** Parses the filter of a query. */
export function parseFilter(query: URLSearchParams): RequestLogFilter {
  const filter: RequestLogFilter = {};
  for (const name of ['channel', 'to', 'push'] as const) {
    const value = query.get(name);
    if (value !== null) filter[name] = value;
  }
  return filter;
}
