import { setTimeout as sleep } from 'node:timers/promises';
import { countRunsSince, readBatchRuns } from '../support/batch-runs.ts';
import type { ConnectedDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { untilDeleted, untilSettled } from '../support/progress.ts';
import { percentile, type Round, ratioRow, valueRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';

const SUBSCRIBERS: Record<Size, number> = { quick: 20_000, usual: 200_000, full: 1_000_000 };
const ROUNDS: Record<Size, number> = { quick: 3, usual: 3, full: 1 };
const PUSHES = 10;
const RECIPIENTS = 10;
/** Between two of the pushes to ten, so that all are sent while the large one is delivered. */
const INTERVAL_MS: Record<Size, number> = { quick: 100, usual: 1_000, full: 5_000 };
const POLL_MS = 50;

/** Measures ten pushes to ten connected devices each, alone and beside a push to many devices that are offline. */
export async function measurePushesBesideLarge(
  fixture: StackFixture,
  devices: ConnectedDevices,
  size: Size,
): Promise<Row[]> {
  const subscribers = SUBSCRIBERS[size];
  const topic = await fixture.audience.subscribe(
    'everybody',
    await fixture.audience.register(subscribers),
  );
  const p50s: Round[] = [];
  const slowest: Round[] = [];
  const seconds: number[] = [];
  const shares: number[][] = [await measureShares(fixture, topic)];
  for (let n = 0; n < ROUNDS[size]; n += 1) {
    const alone = await sendToTen(fixture, devices, INTERVAL_MS[size]);
    const large = await startLargePush(fixture, topic);
    const beside = await sendToTen(fixture, devices, INTERVAL_MS[size], large.isOver);
    seconds.push(await large.end());
    p50s.push({ floor: percentile(alone, 0.5), ours: percentile(beside, 0.5) });
    slowest.push({ floor: Math.max(...alone), ours: Math.max(...beside) });
  }
  const beside = `of pushes to ten devices beside one to ${subscribers.toLocaleString('en')}, against alone`;
  const unit = { unit: 'ms', ratio: 'ours/floor' } as const;
  return [
    ratioRow(`many-processes: p50 ${beside}`, p50s, unit),
    ratioRow(`many-processes: slowest ${beside}`, slowest, unit),
    valueRow('many-processes: the push to many, until its last inbox row', seconds, { unit: 's' }),
    valueRow(
      'many-processes: workers that took batches of the push to many',
      shares.map((batches) => batches.filter((count) => count > 0).length),
      { unit: 'workers' },
    ),
    valueRow(
      'many-processes: batches of the push to many that the busiest worker took',
      shares.map((batches) => (Math.max(...batches) * 100) / batches.reduce((a, b) => a + b, 0)),
      { unit: '%' },
    ),
  ];
}

/** Sends the large push alone, and returns the batches that each worker has delivered of it. */
async function measureShares(fixture: StackFixture, topic: string): Promise<number[]> {
  const before = await readBatchRuns(fixture.stack);
  const large = await startLargePush(fixture, topic);
  await large.settled;
  const after = await readBatchRuns(fixture.stack);
  await large.end();
  return countRunsSince(before, after, 'settled');
}

interface LargePush {
  settled: Promise<void>;
  isOver(): boolean;
  /** Waits until it is settled and deletes it. @returns the seconds from its 200 until it was settled */
  end(): Promise<number>;
}

async function startLargePush(fixture: StackFixture, topic: string): Promise<LargePush> {
  const push = await fixture.push(topic);
  const startedAt = performance.now();
  let overAt: number | undefined;
  const settled = untilSettled(fixture.mongo, push, POLL_MS).then(() => {
    overAt = performance.now();
  });
  return {
    settled,
    isOver: () => overAt !== undefined,
    async end() {
      await settled;
      await fixture.call(fixture.request('DELETE', `/pushes/${push}`));
      await untilDeleted(fixture.mongo, push);
      return ((overAt ?? Number.NaN) - startedAt) / 1_000;
    },
  };
}

let marks = 0;

/**
 * Sends ten pushes to ten devices at a constant interval.
 *
 * @param shouldStop sends no more once it returns true
 * @returns milliseconds from the POST of each to its last PUBACK
 */
async function sendToTen(
  { request, call }: StackFixture,
  { tokens, waitForArrival }: ConnectedDevices,
  intervalMs: number,
  shouldStop: () => boolean = () => false,
): Promise<number[]> {
  const sendOne = async (n: number): Promise<number> => {
    marks += 1;
    const mark = `ten-${marks}`;
    const to = tokens.slice(n * RECIPIENTS, (n + 1) * RECIPIENTS);
    const arrived = waitForArrival(mark, RECIPIENTS);
    const sentAt = performance.now();
    await call(request('POST', '/push', JSON.stringify({ to, data: { mark } })));
    return (await arrived) - sentAt;
  };
  const sent: Promise<number>[] = [];
  for (let n = 0; n < PUSHES && !shouldStop(); n += 1) {
    sent.push(sendOne(n));
    await sleep(intervalMs);
  }
  return Promise.all(sent);
}
