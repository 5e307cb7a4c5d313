import { newClaimId } from '@carillon/core/ids';
import { createFiguresKeys, FIGURES_TTL_SECONDS, MINUTE_MS } from './figures.ts';
import type { Delta } from './figures-counters.ts';
import type { Redis } from './redis.ts';
import { timeToMs } from './redis-time.ts';

/** Longer than the interval of the writes, so that the counts stay with one scheduler. */
const BACKLOG_READER_SECONDS = 12;

/**
 * KEYS: watched, since, backlog reader, applied, the current minute, the minute of each delta.
 * ARGV: number of the write, deltas and gauges as JSON, id of a process that can count the backlog or '', lifetimes.
 * Returns Redis's time in milliseconds, and 1 if the process is to count the backlog.
 */
const ADD_SCRIPT = `
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
local deltas = cjson.decode(ARGV[2])
if #deltas > 0 and tonumber(ARGV[1]) > tonumber(redis.call('GET', KEYS[4]) or '0') then
  redis.call('SET', KEYS[4], ARGV[1], 'EX', ARGV[5])
  for i, delta in ipairs(deltas) do
    for field, n in pairs(delta) do
      redis.call('HINCRBY', KEYS[5 + i], field, string.format('%.0f', n))
    end
    redis.call('EXPIRE', KEYS[5 + i], ARGV[5])
  end
end
local hasGauges = false
for field, value in pairs(cjson.decode(ARGV[3])) do
  redis.call('HSET', KEYS[5], field, value .. '|' .. now)
  hasGauges = true
end
if hasGauges then redis.call('EXPIRE', KEYS[5], ARGV[5]) end
if hasGauges or #deltas > 0 then
  if not redis.call('SET', KEYS[2], now, 'NX', 'EX', ARGV[5]) then
    redis.call('EXPIRE', KEYS[2], ARGV[5])
  end
end
local counts = 0
if ARGV[4] ~= '' and redis.call('EXISTS', KEYS[1]) == 1 then
  local reader = redis.call('GET', KEYS[3])
  if not reader or reader == ARGV[4] then
    redis.call('SET', KEYS[3], ARGV[4], 'EX', ARGV[6])
    counts = 1
  end
end
return {tonumber(now), counts}`;

/** Deltas under one number: sent again with the same number they are added once. */
interface Write {
  number: number;
  deltas: readonly Delta[];
}

/** Creates the sender of one process's figures. */
export function createFiguresSender(redis: Redis) {
  const writer = newClaimId();
  const names = createFiguresKeys(redis);
  /** Redis's time minus the monotonic clock; undefined before the first response. */
  let offset: number | undefined;
  let lastNumber = 0;
  /** Sent without a response: it may have been added. */
  let unconfirmed: Write | undefined;

  async function sendWrite(
    write: Write,
    gauges: Readonly<Record<string, string>>,
    canReadBacklog: boolean,
  ): Promise<boolean> {
    if (write.deltas.length > 0) unconfirmed = write;
    const currentOffset = offset ?? timeToMs(await redis.time()) - performance.now();
    const times = [performance.now(), ...write.deltas.map(({ at }) => at)];
    const minutes = times.map((at) => Math.floor((currentOffset + at) / MINUTE_MS));
    const keys = [names.watched, names.since, names.backlogReader, names.applied(writer)];
    const [now, isBacklogReader] = (await redis.eval(
      ADD_SCRIPT,
      keys.length + minutes.length,
      ...keys,
      ...minutes.map(names.minute),
      write.number,
      JSON.stringify(write.deltas.map(({ fields }) => Object.fromEntries(fields))),
      JSON.stringify(gauges),
      canReadBacklog ? writer : '',
      FIGURES_TTL_SECONDS,
      BACKLOG_READER_SECONDS,
    )) as [number, number];
    unconfirmed = undefined;
    offset = now - performance.now();
    return isBacklogReader === 1;
  }

  return {
    /** Sends the write again whose response was lost, if there is one. */
    async resend(): Promise<void> {
      if (unconfirmed !== undefined) await sendWrite(unconfirmed, {}, false);
    },
    /**
     * Adds deltas and sets gauges in one command. If it fails, the deltas are added by {@link resend}.
     *
     * @param canReadBacklog the process is a scheduler
     * @returns true if the figures have a viewer and this scheduler, of all, is to count the backlog
     */
    send(
      deltas: readonly Delta[],
      gauges: Readonly<Record<string, string>>,
      canReadBacklog: boolean,
    ): Promise<boolean> {
      lastNumber += 1;
      return sendWrite({ number: lastNumber, deltas }, gauges, canReadBacklog);
    },
  };
}
