import { freePort } from '../../../packages/presence/test/start-server.ts';
import { isAcceptingConnections } from '../../../tools/supervisor/src/probes.ts';
import { startProcess, type TestProcess } from '../child-process.ts';
import { until } from '../until.ts';

const HOST = '127.0.0.1';
/** A mongod that was killed first replays its journal. */
const START_TIMEOUT_MS = 60_000;

/** A mongod that can be killed and started again on its data. */
export interface MongodProcess {
  port: number;
  isRunning(): boolean;
  /** Its process id; undefined before the first start. */
  pid(): number | undefined;
  /** Starts it and waits until it accepts connections. @throws when it ends instead */
  start(): Promise<void>;
  /** Sends a signal, such as SIGSTOP. */
  signal(name: NodeJS.Signals): void;
  /** Ends it with SIGKILL. Harmless if it is not running. */
  kill(): Promise<void>;
}

/**
 * Creates a mongod with the data of a folder; it is not started yet.
 *
 * @param options.env more variables of its environment
 * @param options.isLent it outlives the test file that starts it
 */
export async function createMongodProcess(
  folder: string,
  {
    moreArgs = [],
    env = {},
    isLent = false,
  }: { moreArgs?: readonly string[]; env?: Record<string, string>; isLent?: boolean } = {},
): Promise<MongodProcess> {
  // `npm test` has found it.
  const command = process.env.CARILLON_MONGOD ?? 'mongod';
  const port = await freePort();
  const args = [
    ...['--port', `${port}`, '--bind_ip', HOST, '--nounixsocket', '--dbpath', folder, '--quiet'],
    ...['--wiredTigerCacheSizeGB', '0.25'],
    // Its recorder would write to the folder too.
    ...['--setParameter', 'diagnosticDataCollectionEnabled=false'],
    ...moreArgs,
  ];
  let child: TestProcess | undefined;
  const isRunning = () => child?.isRunning() === true;
  return {
    port,
    isRunning,
    pid: () => child?.pid,
    async start() {
      child = startProcess(command, args, {
        ...{ output: 'ignored', isLent },
        env: { ...process.env, ...env },
      });
      const hasStarted = async () =>
        !isRunning() || ((await isAcceptingConnections(HOST, port)) && 'accepting');
      const result = await until(hasStarted, { timeoutMs: START_TIMEOUT_MS, what: 'a mongod' });
      if (result !== 'accepting') throw new Error(`mongod ended with ${await child.exited}`);
    },
    signal: (name) => child?.kill(name),
    async kill() {
      child?.kill('SIGKILL');
      await child?.exited;
    },
  };
}
