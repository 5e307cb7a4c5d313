import { createKey } from '../../../packages/admin/src/keys.ts';
import { openStore, type TestStore } from '../open-store.ts';
import type { DataServers } from '../operators/data-servers.ts';
import {
  SERVICE_SECRETS,
  SERVICES,
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../operators/service-process.ts';
import { callApi } from '../stack/call-api.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';

/** One process of each service, which nothing starts again, and an app without limits. */
export interface ServiceSet extends Pick<Stack, 'dev' | 'api'> {
  services: ServiceProcess[];
  store: TestStore;
  stop(): Promise<void>;
}

/**
 * Starts one process of each service and waits until all are ready.
 *
 * @param envOf further variables of a service
 */
export async function startServiceSet(
  { env }: Pick<DataServers, 'env'>,
  envOf: (service: ServiceName) => Record<string, string>,
): Promise<ServiceSet> {
  const store = await openStore({ uri: env.MONGODB_URI, appName: 'test' });
  const services: ServiceProcess[] = [];
  const stop = async () => {
    await Promise.all(services.map((service) => service.stop()));
    await store.close();
  };
  try {
    for (const service of SERVICES)
      services.push(await startService(service, { ...env, ...envOf(service) }));
    const dev = await describeServices(store, services, env);
    await Promise.all(services.map((service) => service.untilReady()));
    const api: Stack['api'] = (method, path, body) => callApi(dev, method, path, body);
    return { dev, api, services, store, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Creates an account with an app, and describes the services as a stack is described. */
async function describeServices(
  store: TestStore,
  services: readonly ServiceProcess[],
  env: DataServers['env'],
): Promise<Dev> {
  const account = await store.accounts.create('Test', 'pro');
  await store.accounts.limit(account, null);
  const app = await store.apps.create('Test', account);
  const { apiKey } = await createKey(store, SERVICE_SECRETS.API_KEY_PEPPER, app);
  const portOf = (name: ServiceName) => services.find(({ service }) => service === name)?.port;
  return {
    ...{ ready: true, version: '', app, apiKey, processes: [] },
    api: `http://127.0.0.1:${portOf('api')}`,
    mqtt: `mqtt://127.0.0.1:${portOf('device-gateway')}`,
    mongodb: env.MONGODB_URI,
    redis: env.REDIS_URL,
  };
}
