import { afterAll, beforeAll, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { expectBothPresencesLoseNothing } from '../support/topologies/other-presence.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';

const SETUP_MS = 180_000;
const TEST_MS = 300_000;
const DEVICES = 30;

let server: RedisServer;
let cluster: RedisCluster;
let fixture: Fixture;
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  cluster = await startRedisCluster();
  const env = { PRESENCE_REDIS_URL: server.url };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
}, SETUP_MS);
afterAll(async () => {
  await fixture?.close();
  await cluster?.remove();
  await server?.remove();
}, SETUP_MS);

test(
  'from one server: gateways and workers of both beside each other',
  async () => {
    const label = 'a move to a cluster';
    const { url } = cluster;
    await expectBothPresencesLoseNothing(fixture, { label, url, devices: DEVICES });
  },
  TEST_MS,
);
