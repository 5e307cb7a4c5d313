import { setTimeout as sleep } from 'node:timers/promises';
import type { Size, StackFixture } from '../support/fixture.ts';
import { readPssMb, startUsageMeter, sumCpuSeconds } from '../support/resource-usage.ts';
import type { Row } from '../table.ts';

const SECONDS: Record<Size, number> = { quick: 10, usual: 30, full: 60 };
/** Waits until the background work after a start has ended. */
const SETTLE_MS: Record<Size, number> = { quick: 3_000, usual: 15_000, full: 15_000 };

/** Measures the resource usage of an idle stack. */
export async function idle(fixture: StackFixture, size: Size): Promise<Row[]> {
  await sleep(SETTLE_MS[size]);
  const meter = startUsageMeter(fixture.stack);
  const before = await countCommands(fixture);
  const startedAt = performance.now();
  await sleep(SECONDS[size] * 1_000);
  const uses = meter.read();
  const seconds = (performance.now() - startedAt) / 1_000;
  const after = await countCommands(fixture);
  const memory = fixture.stack.dev.processes.reduce((sum, { pid }) => sum + readPssMb(pid), 0);
  const percent = (sumCpuSeconds(uses) * 100) / seconds;
  return [
    {
      what: 'idle: CPU of the whole stack',
      value: percent,
      unit: '% of a core',
      goal: { atMost: 2 },
    },
    ...uses.map(({ process, cpuSeconds }) => ({
      what: `idle: CPU of ${process}`,
      value: (cpuSeconds * 100) / seconds,
      unit: '% of a core',
    })),
    { what: 'idle: memory of the whole stack', value: memory, unit: 'MB' },
    { what: 'idle: commands to Redis', value: (after.redis - before.redis) / seconds, unit: '/s' },
    {
      what: 'idle: commands to MongoDB',
      value: (after.mongo - before.mongo) / seconds,
      unit: '/s',
    },
  ];
}

async function countCommands({
  mongo,
  redis,
}: StackFixture): Promise<{ redis: number; mongo: number }> {
  const stats = await redis.info('stats');
  const { opcounters } = await mongo.admin().serverStatus();
  const counts = Object.values(opcounters as Record<string, unknown>);
  return {
    redis: Number(/total_commands_processed:(\d+)/.exec(stats)?.[1]),
    mongo: counts.reduce<number>((sum, n) => sum + (typeof n === 'number' ? n : 0), 0),
  };
}
