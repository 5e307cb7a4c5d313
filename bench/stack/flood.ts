import { setTimeout as sleep } from 'node:timers/promises';
import { countJoinedPushes } from '../../packages/queue/src/open-job.ts';
import { queueKey } from '../../packages/queue/src/queue-keys.ts';
import type { ConnectedDevices } from '../support/connected-devices.ts';
import type { StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';

/** Delay after a push that the API has refused because of overload. */
const RETRY_MS = 500;

/** Single pushes to connected devices, of which a constant number is in flight. */
export interface Flood {
  /** Returns how many have arrived since the start, and how many the API has refused with 503. */
  counts(): { arrived: number; refused: number };
  /** Waits until the pushes in flight have arrived. @throws the first error of the flood */
  stop(): Promise<void>;
}

let marks = 0;

/** Starts a flood: each push that arrives is followed by the next. */
export function startFlood(
  fixture: StackFixture,
  devices: ConnectedDevices,
  inFlight: number,
): Flood {
  const counts = { arrived: 0, refused: 0 };
  let isStopping = false;
  const running = runConcurrently(inFlight, inFlight, async () => {
    while (!isStopping) {
      if (await sendOne(fixture, devices)) {
        counts.arrived += 1;
        continue;
      }
      counts.refused += 1;
      await sleep(RETRY_MS);
    }
  });
  // `stop` throws the error, possibly much later.
  running.catch(() => undefined);
  return {
    counts: () => ({ ...counts }),
    stop() {
      isStopping = true;
      return running;
    },
  };
}

/**
 * Sends a push to the next device and waits for its arrival.
 *
 * @returns false if the API is overloaded
 * @throws on any other response than 200
 */
async function sendOne(
  { connections, request }: StackFixture,
  { tokens, waitForArrival }: ConnectedDevices,
): Promise<boolean> {
  marks += 1;
  const mark = `flood-${marks}`;
  const arrived = waitForArrival(mark);
  const body = JSON.stringify({ to: tokens[marks % tokens.length], data: { mark } });
  const response = await connections.send(request('POST', '/push', body));
  if (response.status === 503) return false;
  if (response.status !== 200) throw new Error(`the API: ${response.status} ${response.body}`);
  await arrived;
  return true;
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
