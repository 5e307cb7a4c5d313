import { setTimeout as sleep } from 'node:timers/promises';
import type { StackFixture } from './fixture.ts';

/** Statements that all schedulers of a stack have sent to MongoDB. */
export interface SchedulerStatements {
  perSecond: number;
  /** Runs of the task that finds due work, by the statement that each of them sends once. */
  ticksPerSecond: number;
}

const APP_NAME = 'carillon-scheduler';

interface ProfiledStatement {
  command?: { aggregate?: string };
}

/** Counts the statements of the schedulers for a while with MongoDB's profiler, which records no others. */
export async function countSchedulerStatements(
  { mongo }: Pick<StackFixture, 'mongo'>,
  ms: number,
): Promise<SchedulerStatements> {
  await mongo.command({ profile: 1, filter: { appName: APP_NAME } });
  await sleep(ms);
  await mongo.command({ profile: 0, filter: 'unset' });
  const statements = await mongo
    .collection<ProfiledStatement>('system.profile')
    .find({ appName: APP_NAME })
    .toArray();
  await mongo.collection('system.profile').drop();
  const ticks = statements.filter(({ command }) => command?.aggregate === 'pushes');
  const toRate = (count: number) => (count * 1_000) / ms;
  return { perSecond: toRate(statements.length), ticksPerSecond: toRate(ticks.length) };
}
