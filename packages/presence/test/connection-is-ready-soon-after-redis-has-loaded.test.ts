import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import { createDataFolder } from '../../../test/support/data-folder.ts';
import { until } from '../../../test/support/until.ts';
import { createRedis, probeRedis } from '../src/redis.ts';
import { freePort, startServer, type TestServer } from './start-server.ts';

const PROFILES = ['command', 'blocking', 'producer', 'worker'] as const;
const KEYS = 12_000;
/** Loading would take a minute. */
const MICROSECONDS_PER_KEY = 5_000;
/** Redis estimates in whole seconds: from the second one on it reports that loading takes long. */
const ESTIMATED_MS = 2_500;
/** Below the ten seconds for which the library would trust such an estimate. */
const READY = { timeoutMs: 5_000, what: 'a connection that is ready' };

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function startLoading(port: number, folder: string, delay: number): Promise<TestServer> {
  const server = await startServer(
    'redis-server',
    () => [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder],
      ...['--save', '', '--appendonly', 'no', '--key-load-delay', `${delay}`],
      ...['--loading-process-events-interval-bytes', '1024'],
    ],
    port,
  );
  cleanUps.push(server.stop);
  return server;
}

test('every connection is ready soon after Redis has loaded, whatever Redis estimated', async () => {
  const [port, folder] = [await freePort(), await createDataFolder()];
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  const address = { url: `redis://127.0.0.1:${port}` };
  const first = await startLoading(port, folder, 0);
  await probeRedis(address, async (redis) => {
    const entries = Array.from({ length: KEYS }, (_, n) => [`key:${n}`, 'value'.repeat(20)]);
    await redis.mset(...entries.flat());
    await redis.save();
  });
  await first.stop();
  await startLoading(port, folder, MICROSECONDS_PER_KEY);
  const connections = PROFILES.map((profile) => createRedis(address, profile, () => undefined));
  cleanUps.push(() => {
    for (const redis of connections) redis.disconnect();
  });
  await sleep(ESTIMATED_MS);
  await finishLoading(port);
  await until(() => connections.every(({ status }) => status === 'ready'), READY);
});

/** Lets Redis load the rest at once; while it loads it takes only such commands. */
async function finishLoading(port: number): Promise<void> {
  const admin = new Redis(port, '127.0.0.1', { enableReadyCheck: false });
  cleanUps.push(() => admin.disconnect());
  expect(await admin.info('persistence')).toContain('loading:1');
  await admin.config('SET', 'key-load-delay', '0');
}
