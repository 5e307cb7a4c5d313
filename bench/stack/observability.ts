import { type ConnectedDevices, connectDevices } from '../support/connected-devices.ts';
import { openStackFixture, type StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { readCpuSeconds } from '../support/resource-usage.ts';
import { summarize } from '../support/statistics.ts';
import { median, type Row } from '../table.ts';

const PAIRS = 10;
const CONCURRENCY = 50;
const DEVICES = 200;
const PUSHES = { quick: 500, usual: 5_000 };
/** Most CPU that metrics may cost; tracing is off. */
const MAX_RATIO = 1.02;
const SERVICES: readonly string[] = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

/** A running stack with devices, of which half are connected. */
interface Contender {
  fixture: StackFixture;
  connected: ConnectedDevices;
  offline: readonly string[];
}

/**
 * Compares the CPU of all services for a push with that of another checkout, by medians of ten pairs of rounds. Each pair
 * has a second round of the other checkout: where the medians of equal runs differ by more than the goal, their
 * difference is the goal.
 *
 * @param before folder of the other checkout
 */
export async function benchObservability(before: string, quick: boolean): Promise<Row[]> {
  const count = quick ? PUSHES.quick : PUSHES.usual;
  const contenders: Contender[] = [];
  try {
    const floor = await openContender(contenders, before);
    const ours = await openContender(contenders);
    return [
      ...(await compare('accepted, the device is offline', floor, ours, (one) =>
        measureCpu(one, one.offline, count),
      )),
      ...(await compare('delivered to a connected device', floor, ours, (one) =>
        measureCpu(one, one.connected.tokens, count),
      )),
    ];
  } finally {
    for (const { connected, fixture } of contenders) {
      connected.close();
      await fixture.close();
    }
  }
}

async function openContender(opened: Contender[], root?: string): Promise<Contender> {
  const fixture = await openStackFixture(1, {}, root);
  const connected = await connectDevices(fixture, DEVICES);
  const contender = { fixture, connected, offline: await fixture.audience.register(DEVICES) };
  opened.push(contender);
  return contender;
}

async function compare(
  what: string,
  floor: Contender,
  ours: Contender,
  measure: (contender: Contender) => Promise<number>,
): Promise<Row[]> {
  const before: number[] = [];
  const repeated: number[] = [];
  const now: number[] = [];
  // The first round of each warms up.
  for (let pair = 0; pair <= PAIRS; pair += 1) {
    before.push(await measure(floor));
    now.push(await measure(ours));
    repeated.push(await measure(floor));
  }
  const ratios = (values: readonly number[]) =>
    values.slice(1).map((value, pair) => value / (before[pair + 1] ?? Number.NaN));
  const equal = summarize(ratios(repeated), '×');
  return [
    {
      what: `observability: CPU a push, ${what}`,
      value: median(ratios(now)),
      unit: '×',
      goal: { atMost: Math.max(MAX_RATIO, 1 + Math.abs(equal.median - 1)) },
      floor: summarize(before.slice(1), 'µs'),
      ours: summarize(now.slice(1), 'µs'),
    },
    { what: 'observability: two equal runs', value: equal.median, unit: '×', ours: equal },
  ];
}

/** Returns the microseconds of CPU of all services for a push, until the stack is idle again. */
async function measureCpu(
  { fixture }: Contender,
  tokens: readonly string[],
  count: number,
): Promise<number> {
  const { stack, push, untilIdle } = fixture;
  const pids = stack.dev.processes.flatMap(({ service, pid }) =>
    SERVICES.includes(service) ? [pid] : [],
  );
  const readCpu = () => pids.reduce((sum, pid) => sum + readCpuSeconds(pid), 0);
  const before = readCpu();
  let next = 0;
  await runConcurrently(count, CONCURRENCY, async () => {
    next += 1;
    await push(tokens[next % tokens.length] ?? '');
  });
  await untilIdle();
  return ((readCpu() - before) * 1e6) / count;
}
