import { openStackFixture, type Size, type StackFixture } from '../support/fixture.ts';
import { startUsageMeter } from '../support/resource-usage.ts';
import type { Measured } from '../support/results.ts';
import type { Row } from '../table.ts';
import { accept, acceptOne } from './accept.ts';
import { acceptBeside } from './accept-beside.ts';
import { console } from './console.ts';
import { edge } from './edge.ts';
import { fairQueues } from './fair-queues.ts';
import { fanOut, GATEWAYS } from './fan-out.ts';
import { gorush } from './gorush.ts';
import { idle } from './idle.ts';
import { offline } from './offline.ts';
import { oneDevice } from './one-device.ts';
import { oneDeviceBusy } from './one-device-busy.ts';
import { presence } from './presence.ts';
import { schedule } from './schedule.ts';
import { SINGLE_PUSH_GATEWAYS, singlePushes } from './single-pushes.ts';
import { storage } from './storage.ts';
import { tokens } from './tokens.ts';

type Measure = (fixture: StackFixture, size: Size) => Promise<Row[]>;

/** Ordered so that no benchmark is slowed down by the data of earlier ones. */
const BENCHES: Record<string, Measure> = {
  idle,
  storage,
  edge,
  presence,
  'accept-one': acceptOne,
  accept,
  tokens,
  'accept-beside': acceptBeside,
  schedule,
  'one-device': oneDevice,
  'one-device-busy': oneDeviceBusy,
  'fair-queues': fairQueues,
  gorush,
  offline,
  console,
};

/** Gateways of the benchmarks that need several, for every size. */
const GATEWAYS_OF: Record<string, number> = { idle: SINGLE_PUSH_GATEWAYS };

/** The benchmarks of the whole stack by name. They share a stack; those with several gateways have their own. */
export interface StackBenches {
  run: Record<string, () => Promise<Measured>>;
  /** Returns the running stack, or starts a new one. */
  fixture(): Promise<StackFixture>;
  close(): Promise<void>;
}

export function createStackBenches(size: Size): StackBenches {
  let current: { gateways: number; fixture: StackFixture } | undefined;

  async function fixture(gateways = current?.gateways ?? 1): Promise<StackFixture> {
    if (current !== undefined && current.gateways !== gateways) await close();
    current ??= { gateways, fixture: await openStackFixture(gateways) };
    return current.fixture;
  }

  async function close(): Promise<void> {
    await current?.fixture.close();
    current = undefined;
  }

  const run = Object.fromEntries(
    Object.entries(BENCHES).map(([name, measure]) => [
      name,
      async () => measureWithUsage(await fixture(GATEWAYS_OF[name] ?? 1), size, measure),
    ]),
  );
  run['single-pushes'] = async () =>
    measureWithUsage(await fixture(SINGLE_PUSH_GATEWAYS), size, singlePushes);
  run['fan-out'] = async () => measureWithUsage(await fixture(GATEWAYS[size]), size, fanOut);
  return { run, fixture, close };
}

async function measureWithUsage(
  fixture: StackFixture,
  size: Size,
  measure: Measure,
): Promise<Measured> {
  const meter = startUsageMeter(fixture.stack);
  const before = process.cpuUsage();
  const rows = await measure(fixture, size);
  const { user, system } = process.cpuUsage(before);
  const peakMb = process.resourceUsage().maxRSS / 1_024;
  const bench = { process: 'bench', pid: process.pid, cpuSeconds: (user + system) / 1e6, peakMb };
  return { rows, uses: [...meter.read(), bench] };
}
