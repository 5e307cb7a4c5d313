import { fileURLToPath } from 'node:url';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import type { LastProgress } from '../../../packages/runtime/src/progress.ts';
import { startProcess, type TestProcess } from '../child-process.ts';
import { type PollOptions, until } from '../until.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** As an orchestrator's probe, with room for a machine that is busy. */
const PROBE_TIMEOUT_MS = 3_000;
const PROBE_EVERY_MS = 1_000;
/** A guard against hanging. */
const READY_WITHIN_MS = 90_000;
const HEX_KEY = 'ab'.repeat(32);

/** Secrets of every service that is started by `startService`. */
export const SERVICE_SECRETS = {
  API_KEY_PEPPER: HEX_KEY,
  DEVICE_AUTH_KEYS: `1:${HEX_KEY}`,
  CREDENTIAL_KEYS: `1:${HEX_KEY}`,
};

/** The services that a push needs. */
export const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
/** Those and the console. */
export const SERVICES_AND_CONSOLE = [...SERVICES, 'dashboard'] as const;
export type ServiceName = (typeof SERVICES_AND_CONSOLE)[number];

/** A process of one service, started as an orchestrator does: nothing restarts it. */
export interface ServiceProcess extends TestProcess {
  service: ServiceName;
  /** Base URL of its ops server. */
  ops: string;
  /** Port of the API, of MQTT or of the console; nothing listens on it in other services. */
  port: number;
  /** Requests `/readyz` or `/livez`. Rejects without a response. */
  probe(path: ProbePath): Promise<ProbeResult>;
  /** Requests a probe until it responds with a status. */
  untilStatus(path: ProbePath, status: number, timeoutMs: number): Promise<ProbeResult>;
  /** Waits until it is ready. */
  untilReady(): Promise<void>;
}

type ProbePath = '/readyz' | '/livez';

interface ProbeResult {
  status: number;
  faults: string[];
}

/** Starts a service. It must be ended by the test. */
export async function startService(
  service: ServiceName,
  env: Record<string, string>,
): Promise<ServiceProcess> {
  const [opsPort, port] = [await freePort(), await freePort()];
  const child = startProcess(process.execPath, [`services/${service}/src/main.ts`], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      OPS_LISTEN: `127.0.0.1:${opsPort}`,
      API_LISTEN: `127.0.0.1:${port}`,
      MQTT_LISTEN: `127.0.0.1:${port}`,
      DASHBOARD_LISTEN: `127.0.0.1:${port}`,
      ADDRESS_LIMITS: 'off',
      ...SERVICE_SECRETS,
      ...env,
    },
  });
  const ops = `http://127.0.0.1:${opsPort}`;
  const untilStatus = (path: ProbePath, status: number, pollOptions: PollOptions) => {
    const hasStatus = async () => {
      const result = await probe(`${ops}${path}`);
      return result.status === status && result;
    };
    return until(hasStatus, { what: `${path} of ${service}: ${status}`, ...pollOptions });
  };
  return {
    ...child,
    service,
    ops,
    port,
    probe: (path) => probe(`${ops}${path}`),
    untilStatus: (path, status, timeoutMs) =>
      untilStatus(path, status, { timeoutMs, everyMs: PROBE_EVERY_MS }),
    async untilReady() {
      await untilStatus('/readyz', 200, { timeoutMs: READY_WITHIN_MS });
    },
  };
}

/** Requests a probe's URL as an orchestrator does. */
export async function probe(url: string): Promise<ProbeResult> {
  const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
  const { faults } = (await response.json()) as { faults: string[] };
  return { status: response.status, faults };
}

/** Reads what a process did last. @param ops base URL of its ops server */
export async function readProgress(ops: string): Promise<LastProgress[]> {
  const response = await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
  const { progress } = (await response.json()) as { progress: LastProgress[] };
  return progress;
}

/**
 * Returns the state of one activity or loop of a process.
 *
 * @returns undefined if there is none of this name
 */
export async function readState(
  ops: string,
  name: string,
): Promise<LastProgress['state'] | undefined> {
  return (await readProgress(ops)).find((one) => one.name === name)?.state;
}
