import { ONLY_API } from '../support/api/only-api.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openProviderFixture } from '../support/providers/fixture.ts';
import { readResidentBytes } from '../support/resident-memory.ts';
import { isAlive } from '../support/stack/processes.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';
import type { History } from './history.ts';
import { SERVICES } from './plan.ts';

const EACH = 2;
/** A supervisor waits up to ten seconds before it starts a process again. */
const START_MS = 30_000;

/** Two processes of each service, with servers and ways to them that can be broken. */
export type System = Awaited<ReturnType<typeof openSystem>>;

/** Starts the system. */
export async function openSystem() {
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
      dashboards: EACH,
      env: { MONGODB_URI: uri.href, REDIS_URL: `redis://127.0.0.1:${redisProxy.port}` },
    });
    releases.push(fixture.close);
    const { stack, sandbox, store, tenant } = fixture;
    return {
      ...{ stack, sandbox, store, tenant, redis, redisProxy, mongoProxy, close },
      ...controlProcesses(stack, database, redis),
      /** Reads the resident memory of each process that runs, in bytes. */
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

/** Stops, kills and watches the processes of the services and of MongoDB. */
function controlProcesses(stack: Stack, database: Stack, redis: RedisServer) {
  const kills: string[] = [];
  const findRunning = (service: string, index: number): Promise<number> => {
    const running = () => {
      const pid = (service === 'mongodb' ? database : stack).pidOf(service, index);
      return isAlive(pid) && pid;
    };
    const what = `a process ${service} ${index}`;
    return until(running, { timeoutMs: START_MS, everyMs: 50, what });
  };
  return {
    /** Kills a process, which is started again; waits for it if it is just being started. */
    async kill(service: string, index: number) {
      process.kill(await findRunning(service, index), 'SIGKILL');
      kills.push(index === 0 ? service : `${service} ${index}`);
    },
    /** Stops a process, waits, and lets it go on. */
    async stopDuring(service: string, index: number, wait: () => Promise<void>) {
      const pid = await findRunning(service, index);
      process.kill(pid, 'SIGSTOP');
      await wait();
      process.kill(pid, 'SIGCONT');
    },
    /** Lists the processes that have ended, and those that were killed by `kill`. */
    listDeaths: () => ({ deaths: readDeaths([stack, database], redis), kills: [...kills] }),
  };
}

/** Reads the memory of one process; nothing while it is started again. */
function readMemoryOf(stack: Stack, service: string, index: number) {
  try {
    return [{ service, bytes: readResidentBytes(stack.pidOf(service, index)) }];
  } catch {
    return [];
  }
}

/** Reads which processes the supervisors have seen end. Redis runs beside them. */
function readDeaths(stacks: readonly Stack[], redis: RedisServer): History['deaths'] {
  const ends = stacks.flatMap((stack) => [
    ...stack.output().matchAll(/^(.+?) ended \((.+?)\); starting it again/gm),
  ]);
  return [
    ...ends.map(([, process = '', reason = '']) => ({ process, reason })),
    ...Array.from({ length: redis.countDeaths() }, () => ({
      ...{ process: 'redis', reason: 'not killed here' },
    })),
  ];
}
