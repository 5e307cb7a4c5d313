import { setTimeout as sleep } from 'node:timers/promises';
import type { StackFixture } from '../../support/fixture.ts';
import type { Resources } from '../measured.ts';
import { mapResources } from '../resources.ts';
import { type PresenceServer, startMeter } from './resources.ts';

const IDLE_MS = 25_000;

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
