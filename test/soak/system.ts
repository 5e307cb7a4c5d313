import { ONLY_API } from '../support/api/only-api.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { readResidentBytes } from '../support/resident-memory.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
const EACH = 2;

/** Two processes of each service, with servers and ways to them that can be broken. */
export interface System extends Pick<ProviderFixture, 'stack' | 'sandbox' | 'store' | 'tenant'> {
  redis: RedisServer;
  redisProxy: TcpProxy;
  mongoProxy: TcpProxy;
  /** Process of MongoDB, which is started again when it is killed. */
  mongodbPid(): number;
  /** Lists the processes that have ended. */
  listDeaths(): { service: string; wasKilled: boolean }[];
  /** Reads the resident memory of each process that runs, in bytes. */
  readMemory(): { service: string; bytes: number }[];
  close(): Promise<void>;
}

/** Starts the system. */
export async function openSystem(): Promise<System> {
  const releases: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const release of releases.toReversed()) await release();
  };
  try {
    const redis = await createRedisServer();
    releases.push(redis.remove);
    await redis.start();
    const database = await startStack({ ...ONLY_API, apis: 0, ownMongodb: true });
    releases.push(database.stop);
    const uri = new URL(database.dev.mongodb);
    const redisProxy = await startTcpProxy(redis.port);
    releases.push(redisProxy.stop);
    const mongoProxy = await startTcpProxy(Number(uri.port));
    releases.push(mongoProxy.stop);
    uri.port = String(mongoProxy.port);
    const fixture = await openProviderFixture({
      ...{ apis: EACH, deliveryWorkers: EACH, schedulers: EACH, deviceGateways: EACH },
      env: { MONGODB_URI: uri.href, REDIS_URL: `redis://127.0.0.1:${redisProxy.port}` },
    });
    releases.push(fixture.close);
    const { stack, sandbox, store, tenant } = fixture;
    return {
      ...{ stack, sandbox, store, tenant, redis, redisProxy, mongoProxy, close },
      mongodbPid: () => database.pidOf('mongodb'),
      listDeaths: () => readDeaths(stack),
      readMemory: () =>
        SERVICES.flatMap((service) =>
          [0, 1].flatMap((index) => readMemoryOf(stack, service, index)),
        ),
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Reads the memory of one process; nothing while it is started again. */
function readMemoryOf(stack: Stack, service: string, index: number) {
  try {
    return [{ service, bytes: readResidentBytes(stack.pidOf(service, index)) }];
  } catch {
    return [];
  }
}

/** Reads which processes the supervisor has seen end; the run ends them with SIGKILL only. */
function readDeaths(stack: Stack): { service: string; wasKilled: boolean }[] {
  const ends = stack.output().matchAll(/^(.+?) ended \((.+?)\); starting it again/gm);
  return [...ends].map(([, service = '', reason]) => ({
    service,
    wasKilled: reason === 'SIGKILL',
  }));
}
