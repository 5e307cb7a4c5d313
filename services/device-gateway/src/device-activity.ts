import { startInterval } from '@carillon/core/intervals';
import type { Producers } from '@carillon/queue/producers';
import { type ConnectingDevice, hasCredentials } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';

const FLUSH_INTERVAL_MS = 1_000;
/** Maximum entries of a job. */
const MAX_PER_JOB = 1_000;
/** Maximum pending entries; further ones are dropped, which loses only the time of the last activity. */
const MAX_PENDING = 50_000;
/** Maximum apps that are remembered; the app of an evicted entry is recorded again, which changes nothing. */
const MAX_REMEMBERED_APPS = 10_000;

/** A token and milliseconds since 1970, MongoDB's time. */
type LastSeen = [token: string, at: number];

export type LastSeenRecorder = ReturnType<typeof createLastSeenRecorder>;

/** Collects when devices were seen, at connects, at disconnects and some hours apart between them, and publishes them once a second, for `last_active`. */
export function createLastSeenRecorder(
  producers: Pick<Producers, 'publishPresence'>,
  clock: Pick<Store['clock'], 'now'>,
) {
  let pending: LastSeen[] = [];

  async function flush(): Promise<void> {
    const entries = pending;
    pending = [];
    const jobs: Promise<void>[] = [];
    for (let offset = 0; offset < entries.length; offset += MAX_PER_JOB)
      jobs.push(producers.publishPresence(entries.slice(offset, offset + MAX_PER_JOB)));
    await Promise.all(jobs);
  }

  const stopFlushing = startInterval(() => void flush(), FLUSH_INTERVAL_MS);
  return {
    record(token: string): void {
      if (pending.length < MAX_PENDING) pending.push([token, Math.round(clock.now())]);
    },
    async stop(): Promise<void> {
      stopFlushing();
      await flush();
    },
  };
}

export type IosAppRecorder = ReturnType<typeof createIosAppRecorder>;

/**
 * Records which apps have iOS devices that connect over MQTT: workers look up the connections of iOS devices only for
 * those apps. A process writes each app once; a failed write is repeated at the next connect.
 */
export function createIosAppRecorder(apps: Pick<Store['apps'], 'markIosOverMqtt'>) {
  const recorded = new LRUCache<string, true>({ max: MAX_REMEMBERED_APPS });
  return {
    record(device: ConnectingDevice | undefined): void {
      if (!hasCredentials(device) || device.platform !== 'ios') return;
      const { app } = device;
      if (recorded.get(app)) return;
      recorded.set(app, true);
      apps.markIosOverMqtt(app).catch(() => recorded.delete(app));
    },
  };
}
