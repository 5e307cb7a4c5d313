import { afterEach, expect, test } from '@jest/globals';
import { createDispatcher } from '../../packages/presence/src/dispatcher.ts';
import { inspectRedis } from '../../packages/presence/src/inspect-redis.ts';
import { createPresenceReader } from '../../packages/presence/src/presence-reader.ts';
import { connectPresence } from '../../packages/presence/src/presence-server.ts';
import { leaveWithin, openTestGateway } from '../../packages/presence/test/test-gateway.ts';
import { jobSchemas } from '../../packages/queue/src/jobs.ts';
import { createProducers } from '../../packages/queue/src/producers.ts';
import { createWorker } from '../../packages/queue/src/workers.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import { type SentinelSet, startSentinelSet } from '../support/topologies/sentinel-set.ts';
import { until } from '../support/until.ts';

const TEST_MS = 120_000;
const SOON = { timeoutMs: 30_000 };

let servers: SentinelSet | RedisCluster | undefined;
afterEach(async () => {
  await servers?.remove();
  servers = undefined;
});

/** Sends a job through a queue. */
async function expectJobs(address: { url: string; ca?: string | undefined }): Promise<void> {
  const checked: string[] = [];
  const settings = { redis: address, onError: () => undefined };
  const record = async ({ pushes }: { pushes: string[] }) => void checked.push(...pushes);
  const worker = createWorker(settings, 'finish', jobSchemas.finish, record, 1);
  const producers = createProducers(address, () => undefined);
  await producers.checkCompletion(['p1']);
  await until(() => checked.includes('p1'), SOON);
  await worker.stop();
  await producers.close();
}

/** Dispatches to a device through presence. */
async function expectDispatch(address: { url: string; ca?: string | undefined }): Promise<void> {
  const presence = await connectPresence(address);
  const dispatcher = await createDispatcher(presence);
  const gateway = await openTestGateway(address.url, address.ca);
  await gateway.connect('d1', 'k1');
  const reader = createPresenceReader(presence);
  await until(async () => (await reader.lookup(['d1']))[0] !== undefined, SOON);
  const delivery = { push: 'p1', work: 'p1', claim: 'c1', expiresAt: Date.now() + 60_000 };
  const results = await dispatcher.dispatchToDevices(
    { ...delivery, payload: '{}' },
    [{ token: 'd1', position: 0 }],
    leaveWithin(5_000),
  );
  expect(results.get(0)).toBe('acknowledged');
  await gateway.channel.close();
  await dispatcher.close();
  presence.close();
}

test.each([
  ['Sentinels', startSentinelSet],
  ['a cluster', startRedisCluster],
])(
  '%s: with TLS, and a user with a password; without either no connection is accepted',
  async (_name, start) => {
    servers = await start({ isSecured: true });
    const { url, ca } = servers;
    await expectJobs({ url, ca });
    await expectDispatch({ url, ca });
    const { nodes, failoverFaults } = await inspectRedis({ url, ca });
    expect([nodes.length > 1, failoverFaults]).toEqual([true, []]);
    await expect(inspectRedis({ url })).rejects.toThrow();
    await expect(inspectRedis({ url: url.replace(/carillon:[^@]*@/, ''), ca })).rejects.toThrow();
  },
  TEST_MS,
);
