import { openScene, type Scene, type Size } from '../support/scene.ts';
import { startMeter, type Use } from '../support/usage.ts';
import type { Row } from '../table.ts';
import { accept, acceptOne } from './accept.ts';
import { edge } from './edge.ts';
import { fanOut, GATEWAYS } from './fan-out.ts';
import { idle } from './idle.ts';
import { offline } from './offline.ts';
import { oneDevice } from './one-device.ts';
import { oneDeviceBusy } from './one-device-busy.ts';
import { presence } from './presence.ts';
import { schedule } from './schedule.ts';
import { tokens } from './tokens.ts';

type Measure = (scene: Scene, size: Size) => Promise<Row[]>;

/** What a bench of the stack came to. */
export interface StackResult {
  rows: Row[];
  /** Of each process of the stack, and of the bench itself, while it ran. */
  uses: Use[];
}

/** In an order in which none is slowed by what those before have left. */
const BENCHES: Record<string, Measure> = {
  idle,
  edge,
  presence,
  'accept-one': acceptOne,
  accept,
  tokens,
  schedule,
  'one-device': oneDevice,
  'one-device-busy': oneDeviceBusy,
  offline,
};

/** The benches of the whole stack, by their names. They share a stack; the one with the herd has its own. */
export interface StackBenches {
  run: Record<string, () => Promise<StackResult>>;
  /** The stack that runs now, or a fresh one. */
  scene(): Promise<Scene>;
  close(): Promise<void>;
}

export function createStackBenches(size: Size): StackBenches {
  let open: { gateways: number; scene: Scene } | undefined;

  async function scene(gateways = open?.gateways ?? 1): Promise<Scene> {
    if (open !== undefined && open.gateways !== gateways) await close();
    open ??= { gateways, scene: await openScene(gateways) };
    return open.scene;
  }

  async function close(): Promise<void> {
    await open?.scene.close();
    open = undefined;
  }

  const run = Object.fromEntries(
    Object.entries(BENCHES).map(([name, measure]) => [
      name,
      async () => measured(await scene(1), size, measure),
    ]),
  );
  run['fan-out'] = async () => measured(await scene(GATEWAYS[size]), size, fanOut);
  return { run, scene, close };
}

async function measured(scene: Scene, size: Size, measure: Measure): Promise<StackResult> {
  const meter = startMeter(scene.stack);
  const before = process.cpuUsage();
  const rows = await measure(scene, size);
  const { user, system } = process.cpuUsage(before);
  const peakMb = process.resourceUsage().maxRSS / 1_024;
  const bench = { process: 'bench', cpuSeconds: (user + system) / 1e6, peakMb };
  return { rows, uses: [...meter.read(), bench] };
}
