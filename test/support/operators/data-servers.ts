import { startRedis, type TestServer } from '../../../packages/presence/test/start-server.ts';
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { startTestDatabase } from '../test-database.ts';

/** A MongoDB and a Redis for services that a test starts by itself. */
export interface DataServers {
  redis: TestServer & { url: string };
  /** Stands between Redis and the services that use `env`. */
  redisProxy: TcpProxy;
  /** Variables that connect a service to both. */
  env: { MONGODB_URI: string; REDIS_URL: string };
  stop(): Promise<void>;
}

/**
 * Starts both, MongoDB with its indexes, and a proxy before Redis.
 *
 * @param mongodbVariables added to the environment of MongoDB
 */
export async function startDataServers(
  mongodbVariables: Record<string, string> = {},
): Promise<DataServers> {
  const [database, redis] = await Promise.all([startTestDatabase(mongodbVariables), startRedis()]);
  const redisProxy = await startTcpProxy(redis.port);
  return {
    redis,
    redisProxy,
    env: { MONGODB_URI: database.uri, REDIS_URL: `redis://127.0.0.1:${redisProxy.port}` },
    async stop() {
      await redisProxy.stop();
      await redis.stop();
      await database.stop();
    },
  };
}
