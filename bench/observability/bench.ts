import { type ConnectedDevices, connectDevices } from '../support/connected-devices.ts';
import { openStackFixture, type StackFixture } from '../support/fixture.ts';
import { runConcurrently } from '../support/load-patterns.ts';
import { readCpuNanoseconds } from '../support/resource-usage.ts';
import { summarize } from '../support/statistics.ts';
import { median, type Row } from '../table.ts';
import type { Ablation } from './ablations.ts';

const PRELOAD = new URL('preload-process.ts', import.meta.url);
const PAIRS = { quick: 3, usual: 10 };
const PUSHES = { quick: 500, usual: 1_200 };
const CONCURRENCY = 50;
const DEVICES = 200;
/** Most CPU of all services that recording metrics, and tracing that is off, may cost. */
const MAX_RATIOS: Readonly<Record<Ablation, number>> = { metrics: 1.02, tracing: 1.01 };
const SERVICES: readonly string[] = ['api', 'delivery-worker', 'scheduler', 'device-gateway'];

/** A running stack with devices, of which half are connected. */
interface Contender {
  fixture: StackFixture;
  connected: ConnectedDevices;
  offline: readonly string[];
}

/** Stacks of the same code: two as it is, one without metrics, one without the calls for traces. */
type Contenders = Readonly<Record<'plain' | 'equal' | Ablation, Contender>>;
type Name = keyof Contenders;

/**
 * Measures the CPU of all services for a push against that of the same code without metrics, and without the calls for
 * traces, while tracing is off. Each round measures the stacks one after the other, beginning with another one each time;
 * the ratios are those within a round. Two stacks are equal: half of their ratios are nearer to 1 than their median
 * distance from 1, so a part whose median ratio is nearer than that can't be distinguished from no cost. The distance is the
 * goal where it is larger.
 */
export async function benchObservability(quick: boolean): Promise<Row[]> {
  const size = quick ? 'quick' : 'usual';
  const opened: Contender[] = [];
  try {
    const contenders: Contenders = {
      plain: await openContender(opened),
      equal: await openContender(opened),
      metrics: await openContender(opened, 'metrics'),
      tracing: await openContender(opened, 'tracing'),
    };
    return [
      ...(await compare(
        'accepted, the device is offline',
        contenders,
        size,
        ({ offline }) => offline,
      )),
      ...(await compare(
        'delivered to a connected device',
        contenders,
        size,
        ({ connected }) => connected.tokens,
      )),
    ];
  } finally {
    for (const { connected, fixture } of opened) {
      connected.close();
      await fixture.close();
    }
  }
}

async function openContender(opened: Contender[], ablation?: Ablation): Promise<Contender> {
  const preload = `--import=${PRELOAD.href}?${ablation}`;
  const fixture = await openStackFixture(1, ablation && { NODE_OPTIONS: preload });
  const connected = await connectDevices(fixture, DEVICES);
  const contender = { fixture, connected, offline: await fixture.audience.register(DEVICES) };
  opened.push(contender);
  return contender;
}

async function compare(
  what: string,
  contenders: Contenders,
  size: keyof typeof PAIRS,
  tokensOf: (contender: Contender) => readonly string[],
): Promise<Row[]> {
  const names = Object.keys(contenders) as Name[];
  const rounds: Record<Name, number>[] = [];
  // The first round of each stack warms up.
  for (let round = 0; round <= PAIRS[size]; round += 1) {
    const order = names.map((_, index) => names[(index + round) % names.length] as Name);
    const measured: Partial<Record<Name, number>> = {};
    for (const name of order) {
      const contender = contenders[name];
      measured[name] = await measureCpu(contender, tokensOf(contender), PUSHES[size]);
    }
    if (round > 0) rounds.push(measured as Record<Name, number>);
  }
  return toRows(what, rounds);
}

function toRows(what: string, rounds: readonly Record<Name, number>[]): Row[] {
  const cpuOf = (name: Name) =>
    summarize(
      rounds.map((round) => round[name]),
      'µs',
    );
  const ratiosTo = (name: Name) => rounds.map((round) => round.plain / round[name]);
  const row = (label: string, name: Name): Row => ({
    what: `observability: CPU a push, ${what}: ${label}`,
    value: median(ratiosTo(name)),
    unit: '×',
    floor: cpuOf(name),
    ours: cpuOf('plain'),
  });
  const distance = median(ratiosTo('equal').map((ratio) => Math.abs(ratio - 1)));
  const bound = Number((1 + distance).toFixed(4));
  const goalOf = (ablation: Ablation) => ({ atMost: Math.max(MAX_RATIOS[ablation], bound) });
  return [
    { ...row('with metrics against without', 'metrics'), goal: goalOf('metrics') },
    { ...row('with tracing off against without', 'tracing'), goal: goalOf('tracing') },
    row('two equal stacks', 'equal'),
    {
      what: 'observability: half of the ratios of two equal stacks are within',
      value: bound,
      unit: '×',
      ours: summarize(ratiosTo('equal'), '×'),
    },
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
  const readCpu = () => pids.reduce((sum, pid) => sum + readCpuNanoseconds(pid), 0);
  const before = readCpu();
  let next = 0;
  await runConcurrently(count, CONCURRENCY, async () => {
    next += 1;
    await push(tokens[next % tokens.length] ?? '');
  });
  await untilIdle();
  return (readCpu() - before) / 1_000 / count;
}
