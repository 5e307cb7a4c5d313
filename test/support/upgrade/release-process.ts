import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { startProcess } from '../child-process.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

const LISTEN_VARIABLES = { api: 'API_LISTEN', 'device-gateway': 'MQTT_LISTEN' } as const;

/** The services that a release consists of, in the order in which a deployment replaces them. */
export const SERVICES = ['delivery-worker', 'scheduler', 'device-gateway', 'api'] as const;
export type Service = (typeof SERVICES)[number];

/** A process of a service, of any release. */
export interface ReleaseProcess {
  service: Service;
  /** Port of the API or of MQTT; a worker and a scheduler have none. */
  port: number;
  /** HTTP status of /livez or /readyz. */
  probe(path: '/livez' | '/readyz'): Promise<number>;
  untilReady(): Promise<void>;
  /** Stops it with SIGTERM. @throws when it does not exit with 0 */
  stop(): Promise<void>;
  kill(): void;
}

/**
 * Starts a service from a release's folder, with the data servers and secrets of a stack. It is not ready yet.
 *
 * @param root the folder of the release
 * @param env more variables
 */
export async function startReleaseProcess(
  stack: Pick<Stack, 'dev' | 'home'>,
  root: string,
  service: Service,
  env: Record<string, string> = {},
): Promise<ReleaseProcess> {
  const [opsPort, port] = [await freePort(), await freePort()];
  const log = join(stack.home, 'logs', `upgrade-${service}-${opsPort}.log`);
  const child = startProcess(process.execPath, [join(root, 'services', service, 'src/main.ts')], {
    cwd: root,
    env: { ...readSettings(stack), ...listenSettings(service, opsPort, port), ...env },
    output: { file: log },
  });
  const probe = async (path: string) =>
    (await fetch(`http://127.0.0.1:${opsPort}${path}`).catch(() => undefined))?.status ?? 0;
  const name = `${service} of ${root}, which logs to ${log}`;
  return {
    service,
    port,
    probe,
    async untilReady() {
      const isReady = async () => (await probe('/readyz')) === 200;
      await until(isReady, { timeoutMs: 30_000, everyMs: 100, what: name });
    },
    async stop() {
      const code = await child.stop();
      if (code !== 0) throw new Error(`${name} ended with ${code ?? 'a signal'}`);
    },
    kill: () => child.kill('SIGKILL'),
  };
}

function readSettings({ dev, home }: Pick<Stack, 'dev' | 'home'>): NodeJS.ProcessEnv {
  const secrets = JSON.parse(readFileSync(join(home, 'secrets.json'), 'utf8')) as Record<
    'apiKeyPepper' | 'deviceAuthKeys' | 'credentialKeys',
    string
  >;
  return {
    PATH: process.env.PATH,
    REDIS_URL: dev.redis,
    MONGODB_URI: dev.mongodb,
    API_KEY_PEPPER: secrets.apiKeyPepper,
    DEVICE_AUTH_KEYS: secrets.deviceAuthKeys,
    CREDENTIAL_KEYS: secrets.credentialKeys,
    ADDRESS_LIMITS: 'off',
    GATEWAY_DRAIN_SECONDS: '1',
  };
}

function listenSettings(service: Service, opsPort: number, port: number): NodeJS.ProcessEnv {
  const ops = { OPS_LISTEN: `127.0.0.1:${opsPort}` };
  if (service !== 'api' && service !== 'device-gateway') return ops;
  return { ...ops, [LISTEN_VARIABLES[service]]: `127.0.0.1:${port}` };
}
