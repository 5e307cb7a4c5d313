import { join } from 'node:path';
import { MALLOC_SETTINGS } from '../bootstrap/malloc.mjs';
import { type BootstrapConfig, formatUrl } from './bootstrap-config.ts';
import type { DataDir } from './data-dir.ts';
import type { DataServers } from './data-servers.ts';
import { isHttpOk } from './probes.ts';
import { SIMULATED_DEVICE } from './process-group.ts';
import type { Secrets } from './secrets.ts';
import { FIRST_SOCKET_FD, type ProcessSpec, pickVariables } from './supervised-process.ts';
import type { TlsFiles } from './tls-files.ts';

export const SANDBOX = 'sandbox';
const MAX_START_ATTEMPTS = 3;

/**
 * V8's heap sizes. Young generation: half of this size costs single pushes a tenth more CPU, twice the size gains
 * nothing. Old generation: several times the memory in use; without a limit V8 derives one from the machine's memory
 * and collects garbage late.
 */
const MEMORY_FLAGS = ['--max-semi-space-size=16', '--max-old-space-size=1024'];

interface Listener {
  socket: keyof BootstrapConfig['sockets'];
  /** Environment variable with the socket's descriptors. */
  variable: string;
  /** Number of descriptors of the same socket. */
  copies: number;
}

/**
 * Number of descriptors of the gateway's listening socket. The event loop accepts one connection per iteration from
 * each; one descriptor is too slow for a reconnect storm.
 */
const GATEWAY_SOCKET_COPIES = 32;

/** Sockets of the supervisor that each service listens on. */
const LISTENERS: Record<string, readonly Listener[]> = {
  api: [{ socket: 'api', variable: 'API_LISTEN', copies: 1 }],
  dashboard: [{ socket: 'console', variable: 'DASHBOARD_LISTEN', copies: 1 }],
  'device-gateway': [
    { socket: 'mqtt', variable: 'MQTT_LISTEN', copies: GATEWAY_SOCKET_COPIES },
    { socket: 'mqtts', variable: 'MQTTS_LISTEN', copies: GATEWAY_SOCKET_COPIES },
    { socket: 'ws', variable: 'MQTT_WS_LISTEN', copies: GATEWAY_SOCKET_COPIES },
  ],
};

const DATA_SERVER_VARIABLES = ['REDIS_URL', 'REDIS_CA_FILE', 'MONGODB_URI'];
const PRESENCE_VARIABLES = [...DATA_SERVER_VARIABLES, 'PRESENCE_REDIS_URL'];

/** Settings of the console that a developer may give. */
const CONSOLE_VARIABLES = [
  ...['CONSOLE_URL', 'CONSOLE_ENVIRONMENT', 'PUBLIC_API_URL', 'TRUST_PROXY'],
  ...['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET', 'OIDC_SCOPES'],
  ...['OIDC_ROLE_CLAIM', 'OIDC_ACCOUNTS_CLAIM', 'OIDC_LABEL'],
];

const LOCAL_RECEIVERS = 'localhost,127.0.0.0/8,::1';

/** Settings that each kind of process gets. A secret goes only to the processes that use it. */
const VARIABLES_BY_KIND: Record<string, readonly string[]> = {
  api: [
    ...PRESENCE_VARIABLES,
    ...['API_KEY_PEPPER', 'DEVICE_AUTH_KEYS', 'RETENTION_SECONDS', 'ADDRESS_LIMITS'],
    ...['WEB_PUSH_HOSTS', 'WEB_PUSH_CONTACT'],
    ...Object.keys(MALLOC_SETTINGS),
  ],
  'delivery-worker': [
    ...PRESENCE_VARIABLES,
    ...['CREDENTIAL_KEYS', 'RETENTION_SECONDS', 'WEB_PUSH_HOSTS', 'WEB_PUSH_CA_FILE'],
    ...['WEB_PUSH_CONTACT', 'WEBHOOK_HOSTS', 'WEBHOOK_CA_FILE', 'OPEN_BATCHES_PER_PUSH'],
  ],
  scheduler: PRESENCE_VARIABLES,
  'device-gateway': [
    ...PRESENCE_VARIABLES,
    ...['DEVICE_AUTH_KEYS', 'TLS_CERT_FILE', 'TLS_KEY_FILE', 'ADDRESS_LIMITS', 'MQTT_WS_ORIGINS'],
    ...['GATEWAY_DRAIN_SECONDS', 'MAX_CONNECTIONS'],
  ],
  dashboard: [
    ...PRESENCE_VARIABLES,
    ...['API_KEY_PEPPER', 'CREDENTIAL_KEYS', 'RETENTION_SECONDS', 'WEB_PUSH_CONTACT'],
    ...CONSOLE_VARIABLES,
  ],
  'command line': ['MONGODB_URI', 'API_KEY_PEPPER', 'CREDENTIAL_KEYS', 'CARILLON_SANDBOX'],
};

/** Checks that the stack has a process of a service. */
export function runs({ services }: BootstrapConfig, service: string): boolean {
  return services.some((one) => one.service === service && one.count > 0);
}

/** Builds the settings of a stack. `buildEnvironment` selects those of a process. */
export function buildSettings(
  config: BootstrapConfig,
  dataDir: DataDir,
  servers: DataServers,
  secrets: Secrets,
  tls: TlsFiles,
): NodeJS.ProcessEnv {
  return {
    REDIS_URL: servers.redisUrl,
    MONGODB_URI: servers.mongodbUri,
    API_KEY_PEPPER: secrets.apiKeyPepper,
    DEVICE_AUTH_KEYS: secrets.deviceAuthKeys,
    CREDENTIAL_KEYS: secrets.credentialKeys,
    TLS_CERT_FILE: tls.certificate,
    TLS_KEY_FILE: tls.key,
    ...(runs(config, SANDBOX)
      ? {
          CARILLON_SANDBOX: formatUrl('http', config.privateHost, config.ports.sandbox),
          WEB_PUSH_HOSTS: buildWebPushHosts(config),
          WEB_PUSH_CA_FILE: dataDir.resolvePath('sandbox/ca.pem'),
        }
      : pickVariables(process.env, ['WEB_PUSH_HOSTS', 'WEB_PUSH_CA_FILE'])),
    ADDRESS_LIMITS: config.addressLimits,
    RETENTION_SECONDS: String(config.retentionSeconds),
    ...MALLOC_SETTINGS,
    // A local stack has few devices, so a slow drain has no use.
    GATEWAY_DRAIN_SECONDS: '2',
    PUBLIC_API_URL: formatUrl('http', config.host, config.ports.api),
    // The receivers of a local stack run on this machine.
    WEBHOOK_HOSTS: LOCAL_RECEIVERS,
    ...pickVariables(process.env, [
      ...[
        'MQTT_WS_ORIGINS',
        'REDIS_CA_FILE',
        'PRESENCE_REDIS_URL',
        'MAX_CONNECTIONS',
        'WEB_PUSH_CONTACT',
        'WEBHOOK_HOSTS',
        'WEBHOOK_CA_FILE',
        'OPEN_BATCHES_PER_PUSH',
      ],
      ...CONSOLE_VARIABLES,
    ]),
  };
}

/** Builds the environment of a kind of process: the base environment and its own settings. */
export function buildEnvironment(kind: string, settings: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...buildBaseEnvironment(), ...pickVariables(settings, VARIABLES_BY_KIND[kind] ?? []) };
}

/** Builds the specs of all services but the sandbox, in the order of the configuration. */
export function buildServiceSpecs(
  config: BootstrapConfig,
  dataDir: DataDir,
  settings: NodeJS.ProcessEnv,
): ProcessSpec[] {
  return config.services
    .filter(({ service }) => service !== SANDBOX)
    .flatMap((entry) =>
      buildSpecsForService(config, dataDir, buildEnvironment(entry.service, settings), entry),
    );
}

/**
 * Builds the specs of the sandbox. It depends on no other process, and starts before the services because they read
 * the certificate that it creates at its first start.
 */
export function buildSandboxSpecs(config: BootstrapConfig, dataDir: DataDir): ProcessSpec[] {
  const env = {
    ...buildBaseEnvironment(),
    SANDBOX_LISTEN: formatHostAndPort(config, 'sandbox'),
    SANDBOX_APNS_LISTEN: formatHostAndPort(config, 'sandboxApns'),
    SANDBOX_FCM_LISTEN: formatHostAndPort(config, 'sandboxFcm'),
    SANDBOX_WEB_PUSH_LISTEN: formatHostAndPort(config, 'sandboxWebPush'),
    SANDBOX_FILES: dataDir.resolvePath('sandbox'),
    SANDBOX_STACK_FILE: dataDir.resolvePath('dev.json'),
  };
  return config.services
    .filter(({ service }) => service === SANDBOX)
    .flatMap((entry) => buildSpecsForService(config, dataDir, env, entry));
}

function buildSpecsForService(
  config: BootstrapConfig,
  dataDir: DataDir,
  env: NodeJS.ProcessEnv,
  { service, count, firstOpsPort }: BootstrapConfig['services'][number],
): ProcessSpec[] {
  return Array.from({ length: count }, (_, index) =>
    buildServiceSpec(config, dataDir, env, { service, index, opsPort: firstOpsPort + index }),
  );
}

function buildBaseEnvironment(): NodeJS.ProcessEnv {
  return {
    ...pickVariables(process.env, ['PATH', 'HOME', 'TZ', 'NODE_OPTIONS', 'NODE_COMPILE_CACHE']),
    ...pickVariables(process.env, ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_TRACES_SAMPLER_ARG']),
    ...pickVariables(process.env, ['FAILPOINTS']),
    NODE_ENV: 'development',
    LOG_LEVEL: 'info',
  };
}

/** Lists the sandbox's Web Push host and those of the user's WEB_PUSH_HOSTS. */
function buildWebPushHosts(config: BootstrapConfig): string {
  const configuredHosts = process.env.WEB_PUSH_HOSTS ?? '';
  return [formatHostAndPort(config, 'sandboxWebPush'), configuredHosts].filter(Boolean).join(',');
}

function formatHostAndPort(
  { privateHost, ports }: BootstrapConfig,
  port: keyof BootstrapConfig['ports'],
): string {
  return new URL(formatUrl('http', privateHost, ports[port])).host;
}

function buildServiceSpec(
  config: BootstrapConfig,
  dataDir: DataDir,
  env: NodeJS.ProcessEnv,
  { service, index, opsPort }: { service: string; index: number; opsPort: number },
): ProcessSpec {
  const ops = formatUrl('http', config.privateHost, opsPort);
  const listeners = LISTENERS[service] ?? [];
  return {
    service,
    index,
    command: process.execPath,
    args: [
      ...MEMORY_FLAGS,
      ...inspectFlags(config, service, index),
      join(config.root, 'services', service, 'src/main.ts'),
    ],
    cwd: config.root,
    env: {
      ...env,
      OPS_LISTEN: new URL(ops).host,
      ...buildListenVariables(listeners),
    },
    logPath: dataDir.openLog(`${service}-${index}`),
    exitWithParent: true,
    socketFds: listeners.flatMap(({ socket, copies }) =>
      Array.from({ length: copies }, () => config.sockets[socket]),
    ),
    ops,
    maxStartAttempts: MAX_START_ATTEMPTS,
    isReady: () => isHttpOk(`${ops}/readyz`),
  };
}

/**
 * Builds the spec of the demo's device: `carillon simulate`, supervised like a service. Its log has one JSON line for
 * each push that arrived.
 */
export function buildSimulatedDeviceSpec(
  { root }: BootstrapConfig,
  dataDir: DataDir,
  app: string,
  addresses: { api: string; mqtt: string },
): ProcessSpec {
  const main = join(root, 'services/cli/src/main.ts');
  const options = ['--app', app, '--devices', '1', '--platform', 'electron'];
  const state = ['--state', dataDir.resolvePath('device.json')];
  return {
    service: SIMULATED_DEVICE,
    index: 0,
    command: process.execPath,
    args: [main, '--json', 'simulate', ...options, ...state],
    cwd: root,
    env: {
      ...buildBaseEnvironment(),
      CARILLON_API: addresses.api,
      CARILLON_MQTT: addresses.mqtt,
    },
    logPath: dataDir.openLog('device'),
    exitWithParent: true,
    // The stack runs even if the device never starts.
    maxStartAttempts: Number.POSITIVE_INFINITY,
    isReady: async () => true,
  };
}

/** The inspector lets its clients run code, so it is never opened to a network. */
function inspectFlags(
  { inspect, privateHost }: BootstrapConfig,
  service: string,
  index: number,
): string[] {
  if (inspect?.service !== service || index !== 0) return [];
  return [`--inspect=${new URL(formatUrl('http', privateHost, inspect.port)).host}`];
}

function buildListenVariables(listeners: readonly Listener[]): NodeJS.ProcessEnv {
  let nextFd = FIRST_SOCKET_FD;
  const variables = listeners.map(({ variable, copies }) => {
    const descriptors = Array.from({ length: copies }, () => nextFd++);
    return [variable, `fd:${descriptors.join(',')}`];
  });
  return Object.fromEntries(variables);
}
