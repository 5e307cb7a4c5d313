import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../../packages/presence/test/start-server.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** As an orchestrator's probe, with room for a machine that is busy. */
const PROBE_TIMEOUT_MS = 3_000;
const HEX_KEY = 'ab'.repeat(32);

/** Secrets of every service that is started by `startService`. */
export const SERVICE_SECRETS = {
  API_KEY_PEPPER: HEX_KEY,
  DEVICE_AUTH_KEYS: `1:${HEX_KEY}`,
  CREDENTIAL_KEYS: `1:${HEX_KEY}`,
};

/** The services that an operator runs. */
export const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
export type ServiceName = (typeof SERVICES)[number];

/** A process of one service, started as an orchestrator does: nothing restarts it. */
export interface ServiceProcess {
  service: ServiceName;
  pid: number;
  /** Base URL of its ops server. */
  ops: string;
  /** Port of the API or of MQTT; nothing listens on it in other services. */
  port: number;
  /** Asks `/readyz` or `/livez`. Rejects without an answer. */
  probe(path: '/readyz' | '/livez'): Promise<{ status: number; faults: string[] }>;
  isRunning(): boolean;
  /** Returns what it has written. */
  output(): string;
  /** Resolves to the exit code. */
  exited: Promise<number | null>;
  kill(signal: NodeJS.Signals): void;
}

/** Starts a service. It must be ended by the test. */
export async function startService(
  service: ServiceName,
  env: Record<string, string>,
): Promise<ServiceProcess> {
  const [opsPort, port] = [await freePort(), await freePort()];
  const child = spawn(process.execPath, [`services/${service}/src/main.ts`], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '',
      OPS_LISTEN: `127.0.0.1:${opsPort}`,
      API_LISTEN: `127.0.0.1:${port}`,
      MQTT_LISTEN: `127.0.0.1:${port}`,
      ADDRESS_LIMITS: 'off',
      ...SERVICE_SECRETS,
      ...env,
    },
  });
  const ops = `http://127.0.0.1:${opsPort}`;
  return {
    service,
    pid: child.pid ?? 0,
    ops,
    port,
    probe: (path) => probe(`${ops}${path}`),
    isRunning: () => child.exitCode === null && child.signalCode === null,
    output: collectOutput(child),
    exited: once(child, 'close').then(([code]) => code as number | null),
    kill: (signal) => void child.kill(signal),
  };
}

function collectOutput(child: ChildProcess): () => string {
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  return () => text;
}

/** Asks a probe's URL as an orchestrator does. */
export async function probe(url: string): Promise<{ status: number; faults: string[] }> {
  const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
  const { faults } = (await response.json()) as { faults: string[] };
  return { status: response.status, faults };
}
