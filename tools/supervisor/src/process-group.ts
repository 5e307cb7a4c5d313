import { rmSync } from 'node:fs';
import { removeStateFiles } from '../bootstrap/orphans.mjs';
import { readStartTime } from '../bootstrap/process-identity.mjs';
import type { DataDir } from './data-dir.ts';
import { type ProcessSpec, SupervisedProcess } from './supervised-process.ts';

/**
 * Maximum duration of a service's stop: longer than the service's own deadline (packages/runtime), so that a clean stop
 * is not interrupted.
 */
const SERVICE_STOP_TIMEOUT_MS = 25_000;
const SERVER_STOP_TIMEOUT_MS = 60_000;
const FORCED_SERVER_STOP_TIMEOUT_MS = 3000;
const SERVERS = ['redis', 'mongodb'];
export const SIMULATED_DEVICE = 'simulated device';

/** Stop order: first the processes that bring work in, last the servers that store it. */
const STOP_ORDER = [
  SIMULATED_DEVICE,
  'dashboard',
  'api',
  'scheduler',
  'delivery-worker',
  'sandbox',
  'device-gateway',
  ...SERVERS,
];

/** Fields of dev.json besides the processes. */
interface StackInfo {
  version: string;
  api: string;
  app: string;
  apiKey: string;
  mqtt: string;
  mqtts: string;
  ws: string;
  /** URL of the console, if it runs. */
  console?: string;
  /** One-time link that creates the first operator, until there is one. */
  setup?: string;
  /** URL of the sandbox's control API, if it runs. */
  sandbox?: string;
  /** Contact for push services, if the services have one. */
  webPushContact?: string;
  /** Path of the CA certificate, PEM. */
  ca: string;
  mongodb: string;
  redis: string;
  /** Token of the simulated device. */
  device?: string;
}

/**
 * Creates an empty group of processes. It writes the two files that describe the running stack: processes.json from
 * the first process on, for the clean-up after a kill -9; dev.json while the stack is ready, for scripts.
 *
 * @param onFatalError called with an error that the stack can't survive
 */
export function createProcessGroup(
  dataDir: DataDir,
  print: (line: string) => void,
  onFatalError: (error: unknown) => void,
) {
  const processes: SupervisedProcess[] = [];
  let stackInfo: StackInfo | undefined;
  let isOpen = true;
  const findProcesses = (service: string) =>
    processes.filter(({ spec }) => spec.service === service);

  function writeStateFiles(): void {
    if (isOpen) writeState(dataDir, processes, stackInfo);
  }

  return {
    /** Starts processes in parallel; resolves when all of them are ready. */
    start: async (specs: readonly ProcessSpec[]): Promise<void> => {
      const events = { onChange: writeStateFiles, print, onFatalError };
      const started = specs.map((spec) => new SupervisedProcess(spec, events));
      processes.push(...started);
      await Promise.all(started.map((supervised) => supervised.start()));
    },
    /** Writes dev.json. */
    markReady: (info: StackInfo): void => {
      stackInfo = info;
      writeStateFiles();
    },
    /** Restarts the processes of a service. Resolves to whether all became ready; undefined without such processes. */
    restart: (service: string): Promise<boolean> | undefined => {
      const ofService = findProcesses(service);
      if (ofService.length === 0) return undefined;
      const restarts = ofService.map((supervised) => supervised.restart(SERVICE_STOP_TIMEOUT_MS));
      return Promise.all(restarts).then((ready) => ready.every(Boolean));
    },
    /** Stops all processes in STOP_ORDER, one service after the other. Then removes the files. */
    stop: async (): Promise<void> => {
      stackInfo = undefined;
      rmSync(dataDir.resolvePath('dev.json'), { force: true });
      for (const service of STOP_ORDER) {
        const stopTimeoutMs = SERVERS.includes(service)
          ? SERVER_STOP_TIMEOUT_MS
          : SERVICE_STOP_TIMEOUT_MS;
        await Promise.all(
          findProcesses(service).map((supervised) => supervised.stop(stopTimeoutMs)),
        );
      }
      isOpen = false;
      removeStateFiles(dataDir.path);
    },
    /** Shortens the timeouts of a running stop: services are killed at once, servers after 3 s. */
    forceStop: (): void => {
      for (const supervised of processes) {
        const isServer = SERVERS.includes(supervised.spec.service);
        void supervised.stop(isServer ? FORCED_SERVER_STOP_TIMEOUT_MS : 0);
      }
    },
  };
}

function writeState(
  dataDir: DataDir,
  processes: readonly SupervisedProcess[],
  stackInfo: StackInfo | undefined,
): void {
  const running = processes.flatMap(({ spec: { service, index, ops }, pid }) =>
    pid === undefined ? [] : [{ service, index, pid, ops }],
  );
  const records = running.map(({ service, pid }) => ({
    service,
    pid,
    started: readStartTime(pid) ?? '',
  }));
  dataDir.writeJson('processes.json', records);
  if (stackInfo === undefined) return;
  const listed = running.filter(({ service }) => service !== SIMULATED_DEVICE);
  dataDir.writeJson('dev.json', { ready: true, ...stackInfo, processes: listed });
}
