import { join } from 'node:path';
import { type ChildPlan, FIRST_CHILD_SOCKET } from './child-plan.ts';
import { type DataServers, pick } from './data-servers.ts';
import { type Handover, urlAt } from './handover.ts';
import type { Home } from './home.ts';
import { answersOk } from './probes.ts';
import type { Secrets } from './secrets.ts';
import type { TlsFiles } from './tls-files.ts';

const TRIES_AT_START = 3;

/** The services that listen on sockets which the supervisor holds, and where they look for each. */
const LISTENERS: Record<string, { socket: keyof Handover['sockets']; variable: string }[]> = {
  api: [{ socket: 'api', variable: 'API_LISTEN' }],
  'device-gateway': [
    { socket: 'mqtt', variable: 'MQTT_LISTEN' },
    { socket: 'mqtts', variable: 'MQTTS_LISTEN' },
    { socket: 'ws', variable: 'MQTT_WS_LISTEN' },
  ],
};

/** What every service and every run of the command line gets; nothing else of our environment. */
export function commonEnv(
  handover: Handover,
  servers: DataServers,
  secrets: Secrets,
  tls: TlsFiles,
): NodeJS.ProcessEnv {
  return {
    ...pick(process.env, ['PATH', 'HOME', 'TZ', 'NODE_OPTIONS']),
    NODE_ENV: 'development',
    LOG_LEVEL: 'info',
    REDIS_URL: servers.redisUrl,
    MONGODB_URI: servers.mongodbUri,
    API_KEY_PEPPER: secrets.apiKeyPepper,
    DEVICE_AUTH_KEYS: secrets.deviceAuthKeys,
    TLS_CERT_FILE: tls.certificate,
    TLS_KEY_FILE: tls.key,
    ADDRESS_LIMITS: handover.addressLimits,
    RETENTION_SECONDS: String(handover.retentionSeconds),
    // Nobody waits for a herd of two million on one machine.
    GATEWAY_DRAIN_SECONDS: '2',
  };
}

/** The plans of all services, in the order of the handover. */
export function planServices(handover: Handover, home: Home, env: NodeJS.ProcessEnv): ChildPlan[] {
  return handover.services.flatMap(({ service, count, firstOpsPort }) =>
    Array.from({ length: count }, (_, index) =>
      planService(handover, home, env, { service, index, opsPort: firstOpsPort + index }),
    ),
  );
}

function planService(
  handover: Handover,
  home: Home,
  env: NodeJS.ProcessEnv,
  { service, index, opsPort }: { service: string; index: number; opsPort: number },
): ChildPlan {
  const ops = urlAt('http', handover.privateHost, opsPort);
  const listeners = LISTENERS[service] ?? [];
  return {
    service,
    index,
    command: process.execPath,
    args: [join(handover.root, 'services', service, 'src/main.ts')],
    cwd: handover.root,
    env: {
      ...env,
      INSTANCE: String(index),
      OPS_LISTEN: new URL(ops).host,
      ...listenOn(listeners),
    },
    log: home.log(`${service}-${index}`),
    leashed: true,
    sockets: listeners.map(({ socket }) => handover.sockets[socket]),
    ops,
    patience: TRIES_AT_START,
    isReady: () => answersOk(`${ops}/readyz`),
  };
}

function listenOn(listeners: readonly { variable: string }[]): NodeJS.ProcessEnv {
  return Object.fromEntries(
    listeners.map(({ variable }, index) => [variable, `fd:${FIRST_CHILD_SOCKET + index}`]),
  );
}
