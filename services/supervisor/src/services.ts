import { join } from 'node:path';
import { type ChildPlan, FIRST_CHILD_SOCKET } from './child-plan.ts';
import { type DataServers, pick } from './data-servers.ts';
import { type Handover, urlAt } from './handover.ts';
import type { Home } from './home.ts';
import { answersOk } from './probes.ts';
import type { Secrets } from './secrets.ts';
import type { TlsFiles } from './tls-files.ts';

const SANDBOX = 'sandbox';
const TRIES_AT_START = 3;

/**
 * A nursery of middle size: a quarter of it costs a fan-out a quarter more CPU, double gains nothing. And the old
 * generation may grow to several times what is ever in use, but not to what the machine has: by that the collector
 * decides how much garbage it lets lie.
 */
const MEMORY_FLAGS = ['--max-semi-space-size=8', '--max-old-space-size=1024'];

interface Listener {
  socket: keyof Handover['sockets'];
  /** Where the service looks for it. */
  variable: string;
  /** Descriptors that it gets of the same socket. */
  copies: number;
}

/** An event loop takes one connection a turn from each descriptor: too slow for a herd with only one. */
const FOR_HERDS = 32;

/** The services that listen on sockets which the supervisor holds. */
const LISTENERS: Record<string, readonly Listener[]> = {
  api: [{ socket: 'api', variable: 'API_LISTEN', copies: 1 }],
  'device-gateway': [
    { socket: 'mqtt', variable: 'MQTT_LISTEN', copies: FOR_HERDS },
    { socket: 'mqtts', variable: 'MQTTS_LISTEN', copies: FOR_HERDS },
    { socket: 'ws', variable: 'MQTT_WS_LISTEN', copies: FOR_HERDS },
  ],
};

/** What every service and every run of the command line gets; nothing else of our environment. */
export function commonEnv(
  handover: Handover,
  home: Home,
  servers: DataServers,
  secrets: Secrets,
  tls: TlsFiles,
): NodeJS.ProcessEnv {
  return {
    ...ownEnv(),
    REDIS_URL: servers.redisUrl,
    MONGODB_URI: servers.mongodbUri,
    API_KEY_PEPPER: secrets.apiKeyPepper,
    DEVICE_AUTH_KEYS: secrets.deviceAuthKeys,
    CREDENTIAL_KEYS: secrets.credentialKeys,
    TLS_CERT_FILE: tls.certificate,
    TLS_KEY_FILE: tls.key,
    CARILLON_SANDBOX: urlAt('http', handover.privateHost, handover.ports.sandbox),
    WEB_PUSH_HOSTS: webPushHosts(handover),
    WEB_PUSH_CA_FILE: home.at('sandbox/ca.pem'),
    ADDRESS_LIMITS: handover.addressLimits,
    RETENTION_SECONDS: String(handover.retentionSeconds),
    // Nobody waits for a herd of two million on one machine.
    GATEWAY_DRAIN_SECONDS: '2',
  };
}

/** The plans of all services but the sandbox, in the order of the handover. */
export function planServices(handover: Handover, home: Home, env: NodeJS.ProcessEnv): ChildPlan[] {
  return planEach(handover, home, env, (service) => service !== SANDBOX);
}

/**
 * The plan of what plays the providers. It needs no other server, and has to be there before the services:
 * they read the certificate that it makes at its first start.
 */
export function planSandbox(handover: Handover, home: Home): ChildPlan[] {
  const env = {
    ...ownEnv(),
    SANDBOX_LISTEN: hostAt(handover, 'sandbox'),
    SANDBOX_APNS_LISTEN: hostAt(handover, 'sandboxApns'),
    SANDBOX_FCM_LISTEN: hostAt(handover, 'sandboxFcm'),
    SANDBOX_WEB_PUSH_LISTEN: hostAt(handover, 'sandboxWebPush'),
    SANDBOX_FILES: home.at('sandbox'),
  };
  return planEach(handover, home, env, (service) => service === SANDBOX);
}

function planEach(
  handover: Handover,
  home: Home,
  env: NodeJS.ProcessEnv,
  isWanted: (service: string) => boolean,
): ChildPlan[] {
  const wanted = handover.services.filter(({ service }) => isWanted(service));
  return wanted.flatMap(({ service, count, firstOpsPort }) =>
    Array.from({ length: count }, (_, index) =>
      planService(handover, home, env, { service, index, opsPort: firstOpsPort + index }),
    ),
  );
}

function ownEnv(): NodeJS.ProcessEnv {
  return {
    ...pick(process.env, ['PATH', 'HOME', 'TZ', 'NODE_OPTIONS', 'NODE_COMPILE_CACHE']),
    NODE_ENV: 'development',
    LOG_LEVEL: 'info',
  };
}

/** The sandbox's, and those that the caller names. */
function webPushHosts(handover: Handover): string {
  const named = process.env.WEB_PUSH_HOSTS ?? '';
  return [hostAt(handover, 'sandboxWebPush'), named].filter(Boolean).join(',');
}

function hostAt({ privateHost, ports }: Handover, port: keyof Handover['ports']): string {
  return new URL(urlAt('http', privateHost, ports[port])).host;
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
    args: [...MEMORY_FLAGS, join(handover.root, 'services', service, 'src/main.ts')],
    cwd: handover.root,
    env: {
      ...env,
      INSTANCE: String(index),
      OPS_LISTEN: new URL(ops).host,
      ...listenOn(listeners),
    },
    log: home.log(`${service}-${index}`),
    leashed: true,
    sockets: listeners.flatMap(({ socket, copies }) =>
      Array.from({ length: copies }, () => handover.sockets[socket]),
    ),
    ops,
    patience: TRIES_AT_START,
    isReady: () => answersOk(`${ops}/readyz`),
  };
}

function listenOn(listeners: readonly Listener[]): NodeJS.ProcessEnv {
  let next = FIRST_CHILD_SOCKET;
  const described = listeners.map(({ variable, copies }) => {
    const descriptors = Array.from({ length: copies }, () => next++);
    return [variable, `fd:${descriptors.join(',')}`];
  });
  return Object.fromEntries(described);
}
