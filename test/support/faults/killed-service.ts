import { openMongo, type TestMongo } from '../mongo.ts';
import { startDataServers } from '../operators/data-servers.ts';
import {
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../operators/service-process.ts';
import { until } from '../until.ts';
import { type ServiceSet, startServiceSet } from './service-set.ts';

const ENDS_WITHIN_MS = 40_000;

/** Services without faults; one of them is left to the test, which has it end itself at failpoints. */
export interface KilledService {
  set: ServiceSet;
  mongo: TestMongo;
  /**
   * Starts a process that ends itself at a failpoint, and another one when it has done so.
   *
   * @param cause makes it come to the failpoint
   * @returns what `cause` has returned, and the other process, which runs until the next call
   */
  killAt<T>(
    failpoints: string,
    cause: (process: ServiceProcess) => Promise<T>,
  ): Promise<{ caused: T; successor: ServiceProcess }>;
  stop(): Promise<void>;
}

/** Starts all services on servers of their own, and stops the one whose process is to be killed. */
export async function openKilledService(service: ServiceName): Promise<KilledService> {
  const servers = await startDataServers();
  const mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  const stopServers = async () => {
    await mongo.close();
    await servers.stop();
  };
  const set = await startServiceSet(servers, () => ({})).catch(async (error: unknown) => {
    await stopServers();
    throw error;
  });
  let current = set.services.find((one) => one.service === service);

  async function start(env: Record<string, string>): Promise<ServiceProcess> {
    await current?.stop();
    current = await startService(service, { ...servers.env, ...env });
    await current.untilReady();
    return current;
  }

  return {
    set,
    mongo,
    async killAt(failpoints, cause) {
      const killed = await start({ FAILPOINTS: failpoints });
      const caused = await cause(killed);
      await untilKilled(killed, failpoints);
      return { caused, successor: await start({}) };
    },
    async stop() {
      await current?.stop();
      await set.stop();
      await stopServers();
    },
  };
}

/** Waits until a process has ended itself. @throws when it does not reach the failpoint */
export async function untilKilled(killed: ServiceProcess, failpoints: string): Promise<void> {
  const what = `the end of ${killed.service} at ${failpoints}`;
  await until(() => !killed.isRunning(), { timeoutMs: ENDS_WITHIN_MS, what });
  await killed.exited;
}
