import { createKey } from '../../../packages/admin/src/keys.ts';
import { openMongo, type TestMongo } from '../mongo.ts';
import { openStore, type TestStore } from '../open-store.ts';
import { type DataServers, startDataServers } from '../operators/data-servers.ts';
import {
  SERVICE_SECRETS,
  SERVICES,
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../operators/service-process.ts';
import { callApi } from '../stack/call-api.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

const ENDS_WITHIN_MS = 60_000;
const READY_WITHIN_MS = 120_000;
type Env = Record<string, string>;

/** Processes of each service on servers of their own, which nothing starts again, and an app without limits. */
export interface ServiceSet extends Pick<Stack, 'dev' | 'api'> {
  services: ServiceProcess[];
  servers: DataServers;
  store: TestStore;
  mongo: TestMongo;
  /** Returns the first process of a service. */
  find(service: ServiceName): ServiceProcess;
  /** Starts one more process of a service, and does not wait until it is ready. */
  start(service: ServiceName, env?: Env): Promise<ServiceProcess>;
  /**
   * Replaces the processes of a service by one that ends itself at a failpoint, and that one by a sound one.
   *
   * @param cause makes it come to the failpoint
   * @returns what `cause` has returned, and the sound process
   */
  killAt<T>(
    service: ServiceName,
    failpoints: string,
    cause: (process: ServiceProcess) => Promise<T>,
  ): Promise<{ caused: T; successor: ServiceProcess }>;
  stop(): Promise<void>;
}

/**
 * Starts the servers and one process of each service, and waits until all are ready.
 *
 * @param envOf further variables of a service
 * @param mongodbVariables added to the environment of MongoDB
 */
export async function openServiceSet(
  envOf: (service: ServiceName, servers: DataServers) => Env | Promise<Env> = () => ({}),
  mongodbVariables: Env = {},
): Promise<ServiceSet> {
  const releases: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const release of releases.toReversed()) await release();
  };
  try {
    const servers = await startDataServers(mongodbVariables);
    releases.push(servers.stop);
    const { env } = servers;
    const store = await openStore({ uri: env.MONGODB_URI, appName: 'test' });
    releases.push(store.close);
    const mongo = await openMongo({ mongodb: env.MONGODB_URI });
    releases.push(mongo.close);
    const services: ServiceProcess[] = [];
    releases.push(() => Promise.all(services.map((service) => service.stop())));
    const start = async (service: ServiceName, more: Env = {}) => {
      const started = await startService(service, { ...env, ...more });
      services.push(started);
      return started;
    };
    for (const service of SERVICES) await start(service, await envOf(service, servers));
    await Promise.all(services.map((one) => one.untilStatus('/readyz', 200, READY_WITHIN_MS)));
    const find = (name: ServiceName) => {
      const found = services.find(({ service }) => service === name);
      if (found === undefined) throw new Error(`there is no ${name}`);
      return found;
    };
    const account = await store.accounts.create('Test', 'pro');
    await store.accounts.limit(account, null);
    const app = await store.apps.create('Test', account);
    const { apiKey } = await createKey(store, SERVICE_SECRETS.API_KEY_PEPPER, app);
    const dev = {
      ...{ ready: true, version: '', app, apiKey, processes: [] },
      ...{ mongodb: env.MONGODB_URI, redis: env.REDIS_URL },
      get api() {
        return `http://127.0.0.1:${find('api').port}`;
      },
      get mqtt() {
        return `mqtt://127.0.0.1:${find('device-gateway').port}`;
      },
    };
    return {
      ...{ dev, services, servers, store, mongo, find, start, stop },
      api: (method, path, body) => callApi(dev, method, path, body),
      async killAt(service, failpoints, cause) {
        const replace = async (more: Env): Promise<ServiceProcess> => {
          for (const old of services.filter((one) => one.service === service)) {
            await old.stop();
            services.splice(services.indexOf(old), 1);
          }
          const started = await start(service, more);
          const isReady = async () =>
            !started.isRunning() || ((await started.probe('/readyz')).status === 200 && 'ready');
          const state = await until(isReady, { timeoutMs: READY_WITHIN_MS, what: service });
          // One that has ended came to the failpoint over work that was left before.
          return state === 'ready' ? started : replace(more);
        };
        const killed = await replace({ FAILPOINTS: failpoints });
        const caused = await cause(killed);
        await untilEnded(killed, failpoints);
        return { caused, successor: await replace({}) };
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Waits until a process has ended itself. @throws when it does not reach the failpoint */
export async function untilEnded(process: ServiceProcess, failpoints: string): Promise<void> {
  const what = `the end of ${process.service} at ${failpoints}`;
  await until(() => !process.isRunning(), { timeoutMs: ENDS_WITHIN_MS, what });
  await process.exited;
}
