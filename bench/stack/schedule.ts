import { connectDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { percentile, summarize } from '../support/statistics.ts';
import { median, type Row } from '../table.ts';

const PUSHES = 1_000;
const ROUNDS: Record<Size, number> = { quick: 3, usual: 5, full: 9 };
const CONCURRENCY = 50;
/** Time until all pushes are accepted, even on a slow machine. */
const LEAD_SECONDS = 5;

/** Measures a thousand pushes to a thousand connected devices, all due in the same second. */
export async function schedule(fixture: StackFixture, size: Size): Promise<Row[]> {
  const devices = await connectDevices(fixture, PUSHES);
  const rounds: number[][] = [];
  try {
    for (let round = 0; round < ROUNDS[size]; round += 1) {
      rounds.push(await sendAll(fixture, devices, round));
    }
  } finally {
    devices.close();
  }
  const earliest = rounds.map((times) => Math.min(...times));
  const medians = rounds.map((times) => percentile(times, 0.5));
  const p99s = rounds.map((times) => percentile(times, 0.99));
  const row = (what: string, values: number[]) => ({
    what: `schedule: ${what} of ${PUSHES} due in one second`,
    value: median(values),
    unit: 'ms late',
    ours: summarize(values, 'ms'),
  });
  return [
    { ...row('the first', earliest), value: Math.min(...earliest) },
    row('p50', medians),
    { ...row('p99', p99s), value: Math.max(...p99s) },
  ];
}

/** Computes the milliseconds between the due time and the arrival of each push. */
async function sendAll(
  { request, call }: StackFixture,
  { tokens, waitForArrival: arrival }: Awaited<ReturnType<typeof connectDevices>>,
  round: number,
): Promise<number[]> {
  const at = Math.ceil(Date.now() / 1_000) + LEAD_SECONDS;
  // On the monotonic clock.
  const dueAt = performance.now() + at * 1_000 - Date.now();
  const arrivals: Promise<number>[] = [];
  await runConcurrently(PUSHES, CONCURRENCY, async (n) => {
    const mark = `schedule-${round}-${n}`;
    arrivals.push(arrival(mark));
    const body = JSON.stringify({ to: tokens[n], data: { mark }, schedule: at });
    await call(request('POST', '/push', body));
  });
  return (await Promise.all(arrivals)).map((moment) => moment - dueAt);
}
