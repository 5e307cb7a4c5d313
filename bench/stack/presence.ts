import { inTurns, percentile, ratioRow } from '../support/figures.ts';
import { middle } from '../support/pace.ts';
import type { Scene, Size } from '../support/scene.ts';
import { cpuSeconds, pidOf } from '../support/usage.ts';
import type { Row } from '../table.ts';

const ROUNDS = 5;
const TOKENS = 1_000;
const TIMES: Record<Size, number> = { quick: 30, usual: 100, full: 300 };
/** A lone look-up is over sooner, so it is done more often. */
const LONE = 5;

/** Who of a thousand is online, and all about one device, against the one query that either can't do without. */
export async function presence(scene: Scene, size: Size): Promise<Row[]> {
  const { audience, request, stack } = scene;
  const some = await audience.register(TOKENS);
  const [one = ''] = some;
  const devices = scene.mongo.collection<{ _id: string }>('devices');
  const find = (list: string[]) => async () => {
    const filter = { _id: { $in: list }, app: stack.dev.app, deletedAt: { $exists: false } };
    await devices.find(filter, { batchSize: list.length + 1 }).toArray();
  };
  const bulk = request('POST', '/devices/presence', JSON.stringify({ tokens: some }));
  const info = request('GET', `/devices/${one}`);
  return [
    ...(await measure(scene, `presence of ${TOKENS}`, TIMES[size], find(some), bulk)),
    ...(await measure(scene, 'device info', TIMES[size] * LONE, find([one]), info)),
  ];
}

async function measure(
  scene: Scene,
  name: string,
  times: number,
  find: () => Promise<void>,
  bytes: Buffer,
): Promise<Row[]> {
  const pids = ['api', 'mongodb', 'redis'].map((service) => pidOf(scene.stack, service));
  const cpu: number[] = [];
  const rounds = await inTurns(
    ROUNDS + 1,
    () => middle(times, find),
    async () => {
      const before = pids.map(cpuSeconds);
      const ms = await middle(times, async () => {
        await scene.call(bytes);
      });
      const used = pids.reduce((sum, pid, at) => sum + cpuSeconds(pid) - (before[at] ?? 0), 0);
      cpu.push((used * 1_000) / times);
      return ms;
    },
  );
  const goal = { atMost: 2 };
  const what = `presence: p50 of ${name} against one find`;
  return [
    ratioRow(what, rounds.slice(1), { unit: 'ms', goal, ratio: 'ours/floor' }),
    {
      what: `presence: CPU of ${name}, API and servers`,
      value: percentile(cpu.slice(1), 0.5),
      unit: 'ms',
    },
  ];
}
