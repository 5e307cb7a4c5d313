import { newClaimId } from '@carillon/core/ids';
import { toAppFields } from './app-figures.ts';
import {
  APP_BACKLOG_TTL_SECONDS,
  APPS_TTL_SECONDS,
  createFiguresKeys,
  FIGURES_TTL_SECONDS,
  MINUTE_MS,
} from './figures.ts';
import type { Delta } from './figures-counters.ts';
import { readScript } from './read-script.ts';
import type { Redis } from './redis.ts';
import { timeToMs } from './redis-time.ts';

/**
 * TTL of the `backlog-reader` key: longer than the interval of the writes, so that the counts stay with one scheduler.
 */
const BACKLOG_READER_SECONDS = 12;

const ADD_FIGURES = readScript('add-figures');

/** Deltas under one number: sent again with the same number they are added once. */
interface Write {
  number: number;
  deltas: readonly Delta[];
}

/** Values that replace the earlier ones. */
export interface Gauges {
  /** By field of the minute's hash. */
  fields: Readonly<Record<string, string>>;
  /** Pending work by app as JSON; absent if it was not read. */
  appBacklog?: string | undefined;
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
    { fields: gauges, appBacklog = '' }: Gauges,
    canReadBacklog: boolean,
  ): Promise<boolean> {
    if (write.deltas.length > 0) unconfirmed = write;
    const currentOffset = offset ?? timeToMs(await redis.time()) - performance.now();
    const minuteOf = (at: number) => Math.floor((currentOffset + at) / MINUTE_MS);
    const keys = [
      ...[names.watched, names.since, names.backlogReader, names.applied(writer)],
      ...[names.appBacklog, names.minute(minuteOf(performance.now()))],
      ...write.deltas.flatMap(({ at }) => [names.minute(minuteOf(at)), names.apps(minuteOf(at))]),
    ];
    const deltas = write.deltas.flatMap(({ fields, apps }) => [
      { ttl: FIGURES_TTL_SECONDS, fields: Object.fromEntries(fields) },
      { ttl: APPS_TTL_SECONDS, fields: toAppFields(apps) },
    ]);
    const [now, isBacklogReader] = (await redis.eval(
      ADD_FIGURES,
      keys.length,
      ...keys,
      write.number,
      JSON.stringify(deltas),
      JSON.stringify(gauges),
      canReadBacklog ? writer : '',
      FIGURES_TTL_SECONDS,
      BACKLOG_READER_SECONDS,
      appBacklog,
      APP_BACKLOG_TTL_SECONDS,
    )) as [number, number];
    unconfirmed = undefined;
    offset = now - performance.now();
    return isBacklogReader === 1;
  }

  return {
    /** Sends the write again whose response was lost, if there is one. */
    async resend(): Promise<void> {
      if (unconfirmed !== undefined) await sendWrite(unconfirmed, { fields: {} }, false);
    },
    /**
     * Adds deltas and sets gauges in one command. If it fails, the deltas are added by {@link resend}.
     *
     * @param canReadBacklog the process is a scheduler
     * @returns true if the figures have a viewer and this scheduler, of all, is to count the backlog
     */
    send(deltas: readonly Delta[], gauges: Gauges, canReadBacklog: boolean): Promise<boolean> {
      lastNumber += 1;
      return sendWrite({ number: lastNumber, deltas }, gauges, canReadBacklog);
    },
  };
}
