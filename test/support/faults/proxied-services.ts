import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTestTenant } from '../api/tenants.ts';
import { openMongo, type TestMongo } from '../mongo.ts';
import { type DataServers, startDataServers } from '../operators/data-servers.ts';
import {
  SERVICE_SECRETS,
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../operators/service-process.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';
import { startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { createTemporaryFolder } from '../temporary-folder.ts';
import { createDevicePool, type DevicePool, keepConnected } from './device-pool.ts';

/** Of two delivery-workers one continues while the other has lost its connection. */
const PROCESSES: readonly ServiceName[] = [
  ...(['api', 'scheduler', 'device-gateway', 'delivery-worker', 'delivery-worker'] as const),
];

/** A process and the proxies of its connections. */
interface ProxiedService {
  process: ServiceProcess;
  proxies: Record<DataServer, TcpProxy>;
}

/** The servers that services store their data in. */
export type DataServer = 'mongodb' | 'redis';

/** Processes of all services, which nothing restarts, each with proxies of its own to MongoDB and Redis. */
export interface ProxiedServices {
  stack: Pick<Stack, 'api'>;
  mongo: TestMongo;
  pool: DevicePool;
  processes: readonly ServiceProcess[];
  /** Returns the proxy between a service and a server; of two processes that of the first. */
  proxyOf(service: ServiceName, server: DataServer): TcpProxy;
  close(): Promise<void>;
}

/**
 * Starts the servers and the services, and connects devices that stay connected.
 *
 * @param devices how many
 */
export async function openProxiedServices(devices: number): Promise<ProxiedServices> {
  const releases: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const release of releases.toReversed()) await release();
  };
  try {
    const servers = await startDataServers();
    releases.push(servers.stop);
    const proxied: ProxiedService[] = [];
    for (const service of PROCESSES) proxied.push(await startProxied(service, servers, releases));
    const processes = proxied.map(({ process }) => process);
    await Promise.all(processes.map((process) => process.untilReady()));

    const home = createTemporaryFolder();
    const { API_KEY_PEPPER: apiKeyPepper, DEVICE_AUTH_KEYS: deviceAuthKeys } = SERVICE_SECRETS;
    writeFileSync(join(home, 'secrets.json'), JSON.stringify({ apiKeyPepper, deviceAuthKeys }));
    const tenant = await createTestTenant({ home, dev: createDev(processes, servers) }, UNLIMITED);
    const mongo = await openMongo(tenant.dev);
    releases.push(mongo.close);
    const size = { registered: devices, real: devices };
    const pool = await createDevicePool({ home, dev: tenant.dev }, mongo, size);
    releases.push(keepConnected(pool.devices).stop);
    return {
      stack: tenant,
      mongo,
      pool,
      processes,
      proxyOf(service, server) {
        const found = proxied.find(({ process }) => process.service === service);
        if (found === undefined) throw new Error(`there is no ${service}`);
        return found.proxies[server];
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const UNLIMITED = { limit: null };

async function startProxied(
  service: ServiceName,
  { env, redis }: DataServers,
  releases: (() => Promise<void>)[],
): Promise<ProxiedService> {
  const mongodbUri = new URL(env.MONGODB_URI);
  const mongodb = await startTcpProxy(Number(mongodbUri.port));
  releases.push(mongodb.stop);
  const redisProxy = await startTcpProxy(redis.port);
  releases.push(redisProxy.stop);
  mongodbUri.port = String(mongodb.port);
  const process = await startService(service, {
    MONGODB_URI: mongodbUri.href,
    REDIS_URL: `redis://127.0.0.1:${redisProxy.port}`,
  });
  releases.push(async () => {
    process.kill('SIGKILL');
    await process.exited;
  });
  return { process, proxies: { mongodb, redis: redisProxy } };
}

/** Returns the addresses of the processes, as a supervisor describes them. */
function createDev(processes: readonly ServiceProcess[], { env }: DataServers): Dev {
  const portOf = (name: ServiceName) => processes.find(({ service }) => service === name)?.port;
  return {
    ready: true,
    version: 'test',
    api: `http://127.0.0.1:${portOf('api')}`,
    mqtt: `mqtt://127.0.0.1:${portOf('device-gateway')}`,
    app: '',
    apiKey: '',
    mongodb: env.MONGODB_URI,
    redis: env.REDIS_URL,
    processes: [],
  };
}
