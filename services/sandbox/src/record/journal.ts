import type { ProviderChannelName } from '@carillon/core/credentials';
import { type Counts, createCounters, isAccepted } from './counters.ts';
import { createDoubles, type Doubled } from './doubles.ts';
import { createRing } from './ring.ts';

/** One request that a provider would have got. */
export interface Asked {
  channel: ProviderChannelName;
  /** The provider token, or the endpoint. */
  to: string;
  /** Our push id, as far as it can be read. */
  push: string | null;
  /** What it was answered; null: nothing. */
  status: number | null;
  headers: Record<string, string>;
  /** JSON text; null when it can't be read. */
  payload: string | null;
  /** The Apple environment that the client named. */
  environment?: string;
}

/** A request as it is remembered. */
export interface Entry extends Asked {
  /** Counts the requests from 1. */
  n: number;
  /** When it came, Unix milliseconds. */
  at: number;
  /** What a browser said of it (100: delivered, 101: can't be decrypted). */
  acked?: number;
}

/** What is asked for; each part that is there must match. */
export interface Filter {
  channel?: string;
  to?: string;
  push?: string;
}

/** Hears of entries as they come, and of what browsers say of them. */
export interface Watcher {
  received(entry: Entry): void;
  acked(entry: Entry): void;
}

export interface Journal {
  record(asked: Asked): Entry;
  acknowledge(entry: Entry, code: number): void;
  connected(channel: ProviderChannelName): void;
  /** Entries after number `after`, the oldest first, at most `limit`. */
  read(filter: Filter, after: number, limit: number): Entry[];
  /** The number of the newest entry. */
  last(): number;
  counts(): Counts & { doubles: number; doubled: Doubled[] };
  /** Forgets entries and counts; numbers go on. */
  clear(): void;
  /** @returns a function that ends it */
  watch(watcher: Watcher): () => void;
}

/** Makes an empty journal. It remembers the last 100,000 requests, or fewer if they are big; its counts are of all. */
export function createJournal(): Journal {
  const ring = createRing();
  const counters = createCounters();
  const doubles = createDoubles();
  const watchers = new Set<Watcher>();
  let last = 0;

  return {
    record: (asked) => {
      last += 1;
      const entry: Entry = { n: last, at: Date.now(), ...asked };
      ring.add(entry);
      counters.count(asked.channel, asked.status);
      if (isAccepted(asked.status) && asked.push !== null) doubles.accepted(asked.push, asked.to);
      for (const watcher of watchers) watcher.received(entry);
      return entry;
    },
    acknowledge: (entry, code) => {
      entry.acked = code;
      for (const watcher of watchers) watcher.acked(entry);
    },
    connected: counters.connected,
    read: (filter, after, limit) => {
      const found: Entry[] = [];
      for (const entry of ring.after(after)) {
        if (found.length === limit) break;
        if (isMatch(entry, filter)) found.push(entry);
      }
      return found;
    },
    last: () => last,
    counts: () => ({ ...counters.read(), doubles: doubles.count(), doubled: doubles.list() }),
    clear: () => {
      ring.clear();
      counters.clear();
      doubles.clear();
    },
    watch: (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
  };
}

/** Whether an entry is what is asked for. */
export function isMatch(entry: Entry, { channel, to, push }: Filter): boolean {
  return (
    (channel === undefined || entry.channel === channel) &&
    (to === undefined || entry.to === to) &&
    (push === undefined || entry.push === push)
  );
}

/** An entry as JSON on one line, its payload as it came (big numbers survive) and always last. */
export function entryText({ payload, ...entry }: Entry): string {
  // JSON has bare line breaks only between its parts, where a space says the same.
  const oneLine = payload === null ? 'null' : payload.replace(/[\r\n]/g, ' ');
  return `${JSON.stringify(entry).slice(0, -1)},"payload":${oneLine}}`;
}
