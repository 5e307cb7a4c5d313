import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import type { PlannedFault } from './plan.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Each response of a slow MongoDB is so much later. */
const SLOW_MS = 500;

/** Does one fault and heals it. Resolves when it is healed. */
export async function applyFault(
  system: System,
  swarm: Pick<Swarm, 'cutAll'>,
  { fault, index, durationMs }: PlannedFault,
): Promise<void> {
  const wait = () => sleep(durationMs);
  const [verb = '', ...rest] = fault.split(' ');
  const object = rest.join(' ');
  if (object === 'devices') return swarm.cutAll();
  if (PROVIDER_FAULTS[object] !== undefined) return applyProviderFault(system, object, wait);
  if (object.endsWith('redis')) return applyRedisFault(system, fault, wait);
  if (object.endsWith('mongodb')) return applyMongoFault(system, fault, wait);
  if (verb === 'kill') return system.kill(object, index);
  return system.stopDuring(object, index, wait);
}

const PROVIDER_FAULTS: Readonly<Record<string, { faults: object; healed: object }>> = {
  apns: { faults: { delayMs: 1_000 }, healed: { delayMs: 0 } },
  fcm: { faults: { blackHole: true }, healed: { blackHole: false } },
  'web-push': { faults: { dropEvery: 3 }, healed: { dropEvery: null } },
};

async function applyProviderFault(
  { sandbox }: System,
  channel: string,
  wait: () => Promise<void>,
): Promise<void> {
  const { faults, healed } = PROVIDER_FAULTS[channel] ?? { faults: {}, healed: {} };
  await sandbox.setFaults(channel, { ...faults });
  await wait();
  await sandbox.setFaults(channel, { ...healed });
}

async function applyRedisFault(
  { redis, redisProxy }: System,
  fault: string,
  wait: () => Promise<void>,
): Promise<void> {
  if (fault === 'kill redis') {
    await redis.kill();
    await wait();
    return redis.start();
  }
  if (fault === 'stop redis') {
    redis.freeze();
    await wait();
    return redis.thaw();
  }
  if (fault === 'flush redis') return flush(redis.url);
  if (fault === 'roll back redis') return redis.restoreAfter(wait);
  return breakWay(redisProxy, fault, wait);
}

async function flush(url: string): Promise<void> {
  const client = new Redis(url, { lazyConnect: true });
  try {
    await client.connect();
    await client.flushall();
  } finally {
    client.disconnect();
  }
}

async function applyMongoFault(
  { kill, stopDuring, mongoProxy }: System,
  fault: string,
  wait: () => Promise<void>,
): Promise<void> {
  if (fault === 'kill mongodb') return kill('mongodb', 0);
  if (fault === 'stop mongodb') return stopDuring('mongodb', 0, wait);
  return breakWay(mongoProxy, fault, wait);
}

async function breakWay(
  proxy: System['redisProxy'],
  fault: string,
  wait: () => Promise<void>,
): Promise<void> {
  if (fault.startsWith('slow')) {
    proxy.delayResponses(SLOW_MS);
    await wait();
    return proxy.restore();
  }
  if (fault.startsWith('cut')) proxy.cut();
  else proxy.dropResponses();
  await wait();
  // Connections that pass no responses stay so until they break.
  proxy.cut();
  proxy.restore();
}
