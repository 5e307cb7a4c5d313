import { createGroup } from '@carillon/core/group';
import type { Redis } from './redis.ts';

/** How often something happened in its present window. */
export interface Count {
  n: number;
  /** Until the window ends and the count begins anew. */
  resetsInMs: number;
}

/** Counts what happens, over all processes. */
export interface WindowCounts {
  /**
   * Counts one more. A window begins with its first event. Never throws and never waits long: while Redis is away
   * or slow the process counts by itself, from what it knew last (guarantee G14).
   */
  add(key: string, windowMs: number): Promise<Count>;
}

/** What is known here of one window, for when Redis can't be asked. */
interface Known {
  n: number;
  endsAt: number;
  /** Events that Redis hasn't been told of. */
  untold: number;
}

interface Event {
  key: string;
  windowMs: number;
}

/** A healthy Redis answers in a tenth of a millisecond; whoever waits for an unhealthy one waits this long at most. */
const PATIENCE_MS = 100;
/** After a failure Redis isn't asked for a moment, so that only one request in that time has to wait. */
const AWAY_MS = 500;
const MAX_KEYS = 50_000;

/** KEYS: the counters. ARGV: for each how many more and its window in milliseconds. Answers n and time left of each. */
const COUNT = `
local answers = {}
for i, key in ipairs(KEYS) do
  local n = redis.call('INCRBY', key, ARGV[2 * i - 1])
  local left = redis.call('PTTL', key)
  if left < 0 then
    left = tonumber(ARGV[2 * i])
    redis.call('PEXPIRE', key, left)
  end
  answers[2 * i - 1] = n
  answers[2 * i] = left
end
return answers`;

/** Makes the counters of a process; events of one moment share a round trip. */
export function createWindowCounts(
  redis: Pick<Redis, 'eval'>,
  onError: (error: Error) => void,
): WindowCounts {
  const known = new Map<string, Known>();
  let askAgainAt = 0;
  /** A question is under way, perhaps one that nobody waits for any more. */
  let isAsking = false;

  function lookUp({ key, windowMs }: Event): Known {
    const now = performance.now();
    const found = known.get(key);
    if (found !== undefined && found.endsAt > now) return found;
    // Whoever counts under so many names can't be counted; memory is what is left to guard.
    if (known.size >= MAX_KEYS) known.clear();
    const fresh = { n: 0, endsAt: now + windowMs, untold: 0 };
    known.set(key, fresh);
    return fresh;
  }

  /** Asks Redis; whatever comes of it, and however late, the answer is noted. */
  async function ask(groups: ReadonlyMap<string, Told>): Promise<void> {
    const told = [...groups.values()];
    const args = told.flatMap(({ more, windowMs }) => [more, windowMs]);
    isAsking = true;
    try {
      const keys = [...groups.keys()].map(counterKey);
      const answers = (await redis.eval(COUNT, keys.length, ...keys, ...args)) as number[];
      for (const [index, { here }] of told.entries()) {
        here.n = (answers[2 * index] ?? here.n) + here.untold;
        here.endsAt = performance.now() + (answers[2 * index + 1] ?? 0);
      }
    } catch (error) {
      for (const { here, more } of told) here.untold += more;
      askAgainAt = performance.now() + AWAY_MS;
      onError(error as Error);
    } finally {
      isAsking = false;
    }
  }

  const addGrouped = createGroup<Event, Count>(async (events) => {
    const known = events.map((event) => ({ event, here: lookUp(event) }));
    for (const { here } of known) here.n += 1;
    if (isAsking || performance.now() < askAgainAt) {
      for (const { here } of known) here.untold += 1;
    } else {
      await Promise.race([ask(toldTogether(known)), patience()]);
    }
    return inOrder(known.map(({ here }) => here));
  });
  return { add: (key, windowMs) => addGrouped({ key, windowMs }) };
}

function counterKey(key: string): string {
  return `n:${key}`;
}

/** What Redis is to be told of one key. */
interface Told {
  here: Known;
  windowMs: number;
  more: number;
}

function toldTogether(events: readonly { event: Event; here: Known }[]): Map<string, Told> {
  const groups = new Map<string, Told>();
  for (const { event, here } of events) {
    const { more } = groups.get(event.key) ?? { more: here.untold };
    groups.set(event.key, { here, windowMs: event.windowMs, more: more + 1 });
  }
  for (const { here } of groups.values()) here.untold = 0;
  return groups;
}

/** Each event's own number: the last of a window has the whole count. */
function inOrder(windows: readonly Known[]): Count[] {
  const now = performance.now();
  const later = new Map<Known, number>();
  const counts: Count[] = [];
  for (const window of windows.toReversed()) {
    const after = later.get(window) ?? 0;
    later.set(window, after + 1);
    counts.push({ n: window.n - after, resetsInMs: Math.max(0, window.endsAt - now) });
  }
  return counts.reverse();
}

/** An answer that has come while this process was busy is read before the patience ends. */
function patience(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(() => setImmediate(resolve), PATIENCE_MS).unref();
  });
}
