import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { until } from '../until.ts';
import { type Engine, ROOT } from './engine.ts';

export const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
type Service = (typeof SERVICES)[number];

const REPLICAS = 2;
const OPS_PORT = 9_000;
const SERVICE_PORTS: Partial<Record<Service, number>> = { api: 4_000, 'device-gateway': 1_883 };
const PROBE_TIMEOUT_MS = 3_000;

/** One of several containers of a service. */
export interface Replica {
  service: Service;
  /** Name of its service in the compose file: `api-1`. */
  name: string;
  /** Published port of the API or of MQTT; 0 for other services. */
  port: number;
  opsPort: number;
  stopSeconds: number;
}

interface ComposeService {
  build?: unknown;
  ports?: string[];
  stop_grace_period?: string;
}

/**
 * Writes docker-compose.yml with two of each service, each with published ports of its own; all else stays as it is.
 *
 * @param path of the file that is written
 */
export async function writeReplicas(path: string): Promise<Replica[]> {
  const text = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8');
  const file = parse(text, { merge: true }) as { services: Record<string, ComposeService> };
  const replicas: Replica[] = [];
  for (const service of SERVICES) {
    const { [service]: original, ...others } = file.services;
    file.services = others;
    for (let n = 1; n <= REPLICAS; n += 1) {
      const stopSeconds = parseSeconds(original?.stop_grace_period);
      const name = `${service}-${n}`;
      const replica = { service, name, port: 0, opsPort: await freePort(), stopSeconds };
      const ports = [`127.0.0.1:${replica.opsPort}:${OPS_PORT}`];
      const servicePort = SERVICE_PORTS[service];
      if (servicePort !== undefined) {
        replica.port = await freePort();
        ports.push(`127.0.0.1:${replica.port}:${servicePort}`);
      }
      file.services[name] = { ...original, ports };
      replicas.push(replica);
    }
  }
  // The images are there, and a folder to build in would be expected beside the file.
  for (const one of Object.values(file.services)) delete one.build;
  // JSON is YAML too, and quotes every text: podman-compose reads an unquoted `no` as false.
  writeFileSync(path, JSON.stringify(file));
  return replicas;
}

/** Returns the seconds of `45s`, or of `1m${GATEWAY_DRAIN_SECONDS:-12}s` with the variable's default. */
function parseSeconds(text = ''): number {
  const [, minutes = '0', seconds = ''] = /^(?:(\d+)m)?(?:\$\{\w+:-)?(\d+)\}?s$/.exec(text) ?? [];
  return Number(minutes) * 60 + Number(seconds);
}

/** Waits until a replica reports that it is ready. */
export function untilReady({ name, opsPort }: Replica, timeoutMs: number): Promise<true> {
  const isReady = async () => {
    const options = { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) };
    return (await fetch(`http://127.0.0.1:${opsPort}/readyz`, options)).ok;
  };
  return until(isReady, { timeoutMs, everyMs: 100, what: `${name} is ready` });
}

/** Stops a container with its real deadline and starts it again. @returns its exit code */
export async function restartContainer(
  engine: Engine,
  container: string,
  { stopSeconds }: Replica,
): Promise<number> {
  await engine.podman('stop', '--time', String(stopSeconds), container);
  const code = await engine.podman('inspect', '--format', '{{.State.ExitCode}}', container);
  await engine.podman('start', container);
  return Number(code);
}
