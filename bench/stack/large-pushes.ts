import { setTimeout as sleep } from 'node:timers/promises';
import { LIMITS } from '../../packages/core/src/limits.ts';
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
/** Interval of the pushes to ten, so that all are sent while the large one is delivered. */
const INTERVAL_MS: Record<Size, number> = { quick: 100, usual: 1_000, full: 5_000 };
/** Most devices that a push may name. */
const NAMED_DEVICES = LIMITS.tokensPerPush;
const NAMED_ROUNDS = 3;
const POLL_MS = 50;
const SAMPLE_INTERVAL_MS = 20;

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
  const shares = [(await measureUse(fixture, topic)).batches];
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
    ratioRow(`large-pushes: p50 ${beside}`, p50s, unit),
    ratioRow(`large-pushes: slowest ${beside}`, slowest, unit),
    valueRow('large-pushes: the push to many: until its last inbox row', seconds, { unit: 's' }),
    ...shareRows('the push to many', shares),
  ];
}

/** Measures a push that names the maximum of offline devices: all its batches can be released at once. */
export async function measureNamedPush(fixture: StackFixture, setting: string): Promise<Row[]> {
  const tokens = await fixture.audience.register(NAMED_DEVICES);
  const uses: LargePushUse[] = [];
  for (let n = 0; n < NAMED_ROUNDS; n += 1) uses.push(await measureUse(fixture, tokens));
  const name = `a push to ${NAMED_DEVICES.toLocaleString('en')} tokens, ${setting}`;
  const row = (what: string, unit: string, pick: (use: LargePushUse) => number) =>
    valueRow(`large-pushes: ${name}: ${what}`, uses.map(pick), { unit });
  return [
    row('until its last inbox row', 's', ({ seconds }) => seconds),
    row('most batches open', 'batches', ({ mostOpen }) => mostOpen),
    ...shareRows(
      name,
      uses.map(({ batches }) => batches),
    ),
  ];
}

function shareRows(push: string, shares: readonly (readonly number[])[]): Row[] {
  const row = (what: string, unit: string, pick: (batches: readonly number[]) => number) =>
    valueRow(`large-pushes: ${push}: ${what}`, shares.map(pick), { unit });
  return [
    row('workers with batches', 'workers', (batches) => batches.filter((n) => n > 0).length),
    row('batches of the busiest worker', '%', (batches) => {
      const all = batches.reduce((total, n) => total + n, 0);
      return (Math.max(...batches) * 100) / all;
    }),
  ];
}

/** Resources that a large push, the only one in the stack, has used. */
interface LargePushUse {
  seconds: number;
  /** Batches by worker. */
  batches: number[];
  /** Most batches that were released and not closed. */
  mostOpen: number;
}

async function measureUse(
  fixture: StackFixture,
  to: string | readonly string[],
): Promise<LargePushUse> {
  const before = await readBatchRuns(fixture.stack);
  const large = await startLargePush(fixture, to);
  let mostOpen = 0;
  while (!large.isOver()) {
    const open = { push: large.id, 'work.state': 'ready' };
    mostOpen = Math.max(mostOpen, await fixture.mongo.collection('batches').countDocuments(open));
    await sleep(SAMPLE_INTERVAL_MS);
  }
  const after = await readBatchRuns(fixture.stack);
  const seconds = await large.end();
  return { seconds, batches: countRunsSince(before, after, 'settled'), mostOpen };
}

interface LargePush {
  id: string;
  isOver(): boolean;
  /** Waits until it is settled and deletes it. @returns the seconds from its 200 until it was settled */
  end(): Promise<number>;
}

async function startLargePush(
  fixture: StackFixture,
  to: string | readonly string[],
): Promise<LargePush> {
  const push = await fixture.push(to);
  const startedAt = performance.now();
  let overAt: number | undefined;
  const settled = untilSettled(fixture.mongo, push, POLL_MS).then(() => {
    overAt = performance.now();
  });
  return {
    id: push,
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
