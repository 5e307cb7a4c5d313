import { type Entry, entryText, type Filter, isMatch, type Journal } from '../record/journal.ts';
import type { Called } from './route.ts';

const MOST_UNREAD_BYTES = 16_777_216;
const MOST_CAUGHT_UP = 10_000;
const BEAT_MS = 15_000;

/**
 * Entries as they come, as Server-Sent Events; an `acked` event tells what a browser says of one. A watcher
 * that comes back with Last-Event-ID gets what it missed; one that doesn't read is cut off.
 */
export function watch(journal: Journal, { request, response, query }: Called): void {
  const filter = filterOf(query);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.write(':\n\n');
  const send = (text: string) => {
    response.write(text);
    if (response.writableLength > MOST_UNREAD_BYTES) response.destroy();
  };
  const tell = (entry: Entry) => send(`id: ${entry.n}\ndata: ${entryText(entry)}\n\n`);
  const seen = Number(request.headers['last-event-id'] ?? Number.NaN);
  if (Number.isInteger(seen)) journal.read(filter, seen, MOST_CAUGHT_UP).forEach(tell);
  const end = journal.watch({
    received: (entry) => {
      if (isMatch(entry, filter)) tell(entry);
    },
    acked: (entry) => {
      if (isMatch(entry, filter)) send(`event: acked\ndata: ${ackText(entry)}\n\n`);
    },
  });
  const beat = setInterval(() => response.write(':\n\n'), BEAT_MS);
  response.once('close', () => {
    clearInterval(beat);
    end();
  });
}

function ackText({ n, channel, to, push, acked }: Entry): string {
  return JSON.stringify({ n, channel, to, push, acked });
}

/** The filter that a query names. */
export function filterOf(query: URLSearchParams): Filter {
  const filter: Filter = {};
  for (const name of ['channel', 'to', 'push'] as const) {
    const value = query.get(name);
    if (value !== null) filter[name] = value;
  }
  return filter;
}
