import { connectDevices } from '../support/connected.ts';
import { percentile, spread } from '../support/figures.ts';
import { inFlight } from '../support/pace.ts';
import type { Scene, Size } from '../support/scene.ts';
import { median, type Row } from '../table.ts';

const PUSHES = 1_000;
const ROUNDS: Record<Size, number> = { quick: 1, usual: 3, full: 5 };
const AT_ONCE = 50;
/** Until all are accepted, also on a slow machine. */
const AHEAD_SECONDS = 5;

/** A thousand pushes for a thousand connected devices, all due in the same second. */
export async function schedule(scene: Scene, size: Size): Promise<Row[]> {
  const devices = await connectDevices(scene, PUSHES);
  const rounds: number[][] = [];
  try {
    for (let round = 0; round < ROUNDS[size]; round += 1) {
      rounds.push(await sendAll(scene, devices, round));
    }
  } finally {
    devices.close();
  }
  const earliest = rounds.map((times) => Math.min(...times));
  const middle = rounds.map((times) => percentile(times, 0.5));
  const late = rounds.map((times) => percentile(times, 0.99));
  const row = (what: string, values: number[]) => ({
    what: `schedule: ${what} of ${PUSHES} due in one second`,
    value: median(values),
    unit: 'ms late',
    ours: spread(values, 'ms'),
  });
  return [
    { ...row('the first', earliest), value: Math.min(...earliest), goal: { atLeast: 0 } },
    row('p50', middle),
    { ...row('p99', late), value: Math.max(...late), goal: { atMost: 1_000 } },
  ];
}

/** Milliseconds by which each came after its time. */
async function sendAll(
  { request, call }: Scene,
  { tokens, arrival }: Awaited<ReturnType<typeof connectDevices>>,
  round: number,
): Promise<number[]> {
  const at = Math.ceil(Date.now() / 1_000) + AHEAD_SECONDS;
  // The moment by the clock that measures durations, which nobody sets.
  const dueAt = performance.now() + at * 1_000 - Date.now();
  const arrivals: Promise<number>[] = [];
  await inFlight(PUSHES, AT_ONCE, async (n) => {
    const mark = `schedule-${round}-${n}`;
    arrivals.push(arrival(mark));
    const body = JSON.stringify({ to: tokens[n], data: { mark }, schedule: at });
    await call(request('POST', '/push', body));
  });
  return (await Promise.all(arrivals)).map((moment) => moment - dueAt);
}
