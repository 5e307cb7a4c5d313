import { setTimeout as sleep } from 'node:timers/promises';
import { openStackFixture, type StackFixture } from '../../support/fixture.ts';
import type { MeasuredIdle, Resources } from '../measured.ts';
import { mapResources } from '../resources.ts';
import { startPresenceServer } from './presence-server.ts';
import { type PresenceServer, startMeter } from './resources.ts';

const SETTLE_MS = 10_000;
const IDLE_MS = 25_000;

/** Measures a stack with one gateway at rest: against one with several it tells what a gateway costs the servers. */
export async function measureIdle(): Promise<MeasuredIdle> {
  const presence = await startPresenceServer();
  const fixture = await openStackFixture(1, { PRESENCE_REDIS_URL: presence.url });
  try {
    await sleep(SETTLE_MS);
    return { processes: countProcesses(fixture), idle: await measureSecond(fixture, presence) };
  } finally {
    await fixture.close();
    await presence.stop();
  }
}

/** Measures what the stack uses in a second without load. */
export async function measureSecond(
  fixture: StackFixture,
  presence: PresenceServer,
): Promise<Resources> {
  const read = await startMeter(fixture, presence);
  await sleep(IDLE_MS);
  return mapResources(await read(), (_, amount) => (amount * 1_000) / IDLE_MS);
}

/** Counts the processes of each service. */
export function countProcesses({ stack }: StackFixture): Record<string, number> {
  const services = Map.groupBy(stack.dev.processes, ({ service }) => service);
  return Object.fromEntries([...services].map(([service, all]) => [service, all.length]));
}
