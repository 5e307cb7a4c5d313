import { setTimeout as sleep } from 'node:timers/promises';
import { countJoinedPushes } from '../../packages/queue/src/open-job.ts';
import { queueKey } from '../../packages/queue/src/queue-keys.ts';
import type { ConnectedDevices } from '../support/connected-devices.ts';
import type { StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { untilArrived } from './one-device.ts';

/** Single pushes to connected devices, of which a constant number is in flight. */
export interface Flood {
  /** Returns how many have arrived since the start. */
  countArrived(): number;
  /** Waits until the pushes in flight have arrived. @throws the first error of the flood */
  stop(): Promise<void>;
}

/** Starts a flood: each push that arrives is followed by the next. */
export function startFlood(
  fixture: StackFixture,
  devices: ConnectedDevices,
  inFlight: number,
): Flood {
  let arrived = 0;
  let sent = 0;
  let isStopping = false;
  const running = runConcurrently(inFlight, inFlight, async () => {
    while (!isStopping) {
      sent += 1;
      await untilArrived(fixture, devices, sent);
      arrived += 1;
    }
  });
  // An error is thrown by the stop, which may come much later.
  running.catch(() => undefined);
  return {
    countArrived: () => arrived,
    stop() {
      isStopping = true;
      return running;
    },
  };
}

const SAMPLE_INTERVAL_MS = 100;

/**
 * Waits, and samples meanwhile whether pushes or jobs wait for a delivery-worker, with two commands each time.
 *
 * @returns the share of samples (0–1) in which nothing waited
 */
export async function sampleEmptyQueue(
  { redis }: Pick<StackFixture, 'redis'>,
  ms: number,
): Promise<number> {
  const endsAt = performance.now() + ms;
  let samples = 0;
  let empty = 0;
  while (performance.now() < endsAt) {
    const [joined, jobs] = await Promise.all([
      countJoinedPushes(redis),
      redis.llen(queueKey(redis, 'send', 'wait')),
    ]);
    samples += 1;
    if (joined + jobs === 0) empty += 1;
    await sleep(SAMPLE_INTERVAL_MS);
  }
  return empty / samples;
}
