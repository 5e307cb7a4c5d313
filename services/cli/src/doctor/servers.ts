import { redisFacts } from '@carillon/queue/facts';
import type { Store } from '@carillon/store/store';
import { callApi, errorIn } from '../api.ts';
import { placeOf, withStore } from '../database.ts';
import { need, type Stack } from '../stack.ts';
import { type Finding, look } from './report.ts';

const CLOCK_DIFFERENCE_MS = 2_000;

/** MongoDB: there, its indexes, its clock. */
export async function lookAtMongodb(stack: Stack): Promise<Finding[]> {
  try {
    return await withStore(stack, (store) =>
      Promise.all([
        look(
          'mongodb',
          async () => `${await store.version()} at ${placeOf(need(stack, 'mongodb'))}`,
        ),
        look('mongodb indexes', () => indexes(store)),
        look('clock', async () => clock(store)),
      ]),
    );
  } catch (error) {
    const failed = await look('mongodb', () => Promise.reject(error));
    return [failed];
  }
}

async function indexes(store: Pick<Store, 'missingIndexes'>): Promise<string> {
  const missing = await store.missingIndexes();
  if (missing.length === 0) return 'all there';
  throw new Error(`missing: ${missing.join(', ')}; run carillon migrate`);
}

function clock(store: Pick<Store, 'clock'>): string {
  const ms = Math.round(Date.now() - store.clock.now());
  if (Math.abs(ms) < CLOCK_DIFFERENCE_MS) return `${Math.abs(ms)} ms from MongoDB's`;
  throw new Error(
    `${Math.abs(ms)} ms ${ms > 0 ? 'ahead of' : 'behind'} MongoDB's; check time synchronisation`,
  );
}

/** Redis: there, and never throwing anything away. */
export async function lookAtRedis(stack: Stack): Promise<Finding[]> {
  const facts = (async () => redisFacts(need(stack, 'redis')))();
  const redis = await look('redis', async () => {
    const { server, version } = await facts;
    return `${server} ${version} at ${placeOf(need(stack, 'redis'))}`;
  });
  if (!redis.ok) return [redis];
  const policy = await look('redis maxmemory-policy', async () => {
    const { maxmemoryPolicy } = await facts;
    if (maxmemoryPolicy === 'noeviction') return maxmemoryPolicy;
    throw new Error(
      `${maxmemoryPolicy}; it must be noeviction, or Redis drops jobs when it is full`,
    );
  });
  return [redis, policy];
}

/** There is no such device; how that is said tells that the API is there, and whether the key holds. */
const PROBE = '/devices/doctor';

/** The HTTP API: there, and whether it knows the key. */
export async function lookAtApi(stack: Stack): Promise<Finding[]> {
  const key = stack.apiKey;
  const asked = (async () => {
    const request = { method: 'GET', path: PROBE, ...(key && { key }) } as const;
    const { status, text } = await callApi(need(stack, 'api'), request);
    return { status, error: errorIn(text) };
  })();
  const api = await look('api', async () => {
    const { status, error } = await asked;
    if (error === undefined) throw new Error(`what answers at ${stack.api} is no Carillon`);
    if (status >= 500) throw new Error(`HTTP ${status} at ${stack.api}: ${error.error}`);
    return `answers at ${stack.api}`;
  });
  if (!api.ok || key === undefined) return [api];
  const validity = await look('api key', async () => {
    const { error } = await asked;
    if (error?.code === 'INVALID_DEVICE_TOKEN') return 'valid';
    throw new Error(error?.error);
  });
  return [api, validity];
}
