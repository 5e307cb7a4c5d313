import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type BootstrapConfig, formatUrl } from './bootstrap-config.ts';
import { createCliRunner, prepareDatabase, type Tenant } from './cli.ts';
import type { DataDir } from './data-dir.ts';
import {
  beginFirstSetUp,
  checkConfiguredRedis,
  createDataServers,
  endFirstSetUp,
} from './data-servers.ts';
import { createProcessGroup } from './process-group.ts';
import { startReload } from './reload.ts';
import { openSecrets } from './secrets.ts';
import {
  buildEnvironment,
  buildSandboxSpecs,
  buildServiceSpecs,
  buildSettings,
  buildSimulatedDeviceSpec,
  runs,
  SANDBOX,
} from './services.ts';
import { type ProcessSpec, pickVariables } from './supervised-process.ts';
import { ensureTlsFiles, startTlsRenewal } from './tls-files.ts';

const WATCHDOG_SCRIPT = fileURLToPath(new URL('../bootstrap/watchdog.mjs', import.meta.url));
const DEVICE_TIMEOUT_MS = 10_000;
const DEVICE_POLL_INTERVAL_MS = 50;

/** Description of a stack that is ready. */
export interface RunningStack extends Tenant {
  api: string;
  /** URL of the console, if it runs. */
  console?: string;
  /** One-time link that creates the console's first operator, until there is one. */
  setup?: string;
  /** URL of the sandbox's control API, if it runs. */
  sandbox?: string;
  /** The simulated device. Without a token it is not connected yet. */
  device?: { token: string | undefined; logPath: string };
}

export interface Stack {
  /** Starts every process; resolves when all of them are ready. */
  start(): Promise<RunningStack>;
  /** Rejects on an error that the stack can't survive. */
  failed: Promise<never>;
  /** Stops every process in order. A second call stops them at once. */
  stop(): Promise<void>;
}

/** Creates a stack. @param print prints one line on the terminal */
export function createStack(
  config: BootstrapConfig,
  dataDir: DataDir,
  print: (line: string) => void,
): Stack {
  const fatalError = Promise.withResolvers<never>();
  fatalError.promise.catch(() => undefined);
  const processGroup = createProcessGroup(dataDir, print, fatalError.reject);
  const abortController = new AbortController();
  const watchdog = startWatchdog(dataDir.path);
  const addresses = buildAddresses(config);
  let stopping: Promise<void> | undefined;
  const releases: (() => void)[] = [];

  async function start(): Promise<RunningStack> {
    const secrets = openSecrets(dataDir);
    const servers = createDataServers(config, dataDir);
    beginFirstSetUp(servers.mongodbFolder);
    const initialSpecs = [...servers.specs, ...buildSandboxSpecs(config, dataDir)];
    await Promise.all([checkConfiguredRedis(config), processGroup.start(initialSpecs)]);
    const tls = await ensureTlsFiles(dataDir, config.host);
    // A renewal timer that starts after the stop would keep the process alive forever.
    abortController.signal.throwIfAborted();
    releases.push(startTlsRenewal(dataDir, config.host, print));
    const settings = buildSettings(config, dataDir, servers, secrets, tls);
    const env = buildEnvironment('command line', settings);
    const runCli = createCliRunner(config.root, env, abortController.signal);
    const consoleUrl = addresses.console && (process.env.CONSOLE_URL || addresses.console);
    const prepared = await prepareDatabase(runCli, dataDir, secrets, consoleUrl);
    endFirstSetUp(servers.mongodbFolder);
    abortController.signal.throwIfAborted();
    await processGroup.start(buildServiceSpecs(config, dataDir, settings));
    abortController.signal.throwIfAborted();
    const deviceSpec = buildSimulatedDeviceSpec(config, dataDir, prepared.app, addresses);
    const device = config.demo ? await startDevice(processGroup, deviceSpec) : undefined;
    abortController.signal.throwIfAborted();
    processGroup.markReady({
      version: config.version,
      ...addresses,
      ca: tls.ca,
      ...prepared,
      mongodb: servers.mongodbUri,
      redis: servers.redisUrl,
      ...(device?.token === undefined ? {} : { device: device.token }),
      ...(settings.WEB_PUSH_CONTACT && { webPushContact: settings.WEB_PUSH_CONTACT }),
    });
    releases.push(startReload(config, { restart: processGroup.restart, print }));
    return { ...prepared, ...addresses, ...(device === undefined ? {} : { device }) };
  }

  async function stop(): Promise<void> {
    abortController.abort();
    for (const release of releases) release();
    await processGroup.stop();
    watchdog.cancel();
    dataDir.releaseLock();
  }

  return {
    start,
    failed: fatalError.promise,
    stop: () => {
      if (stopping === undefined) stopping = stop();
      else processGroup.forceStop();
      return stopping;
    },
  };
}

function buildAddresses(config: BootstrapConfig) {
  return {
    api: formatUrl('http', config.host, config.ports.api),
    mqtt: formatUrl('mqtt', config.host, config.ports.mqtt),
    mqtts: formatUrl('mqtts', config.host, config.ports.mqtts),
    ws: formatUrl('ws', config.host, config.ports.ws),
    ...(runs(config, 'dashboard') && {
      console: formatUrl('http', config.host, config.ports.console),
    }),
    ...(runs(config, SANDBOX) && {
      sandbox: formatUrl('http', config.privateHost, config.ports.sandbox),
    }),
  };
}

/** Starts the simulated device, and waits some seconds until it is connected. */
async function startDevice(
  processGroup: Pick<ReturnType<typeof createProcessGroup>, 'start'>,
  spec: ProcessSpec,
): Promise<RunningStack['device']> {
  await processGroup.start([spec]);
  return { token: await waitForToken(spec.logPath), logPath: spec.logPath };
}

/** Waits until the simulated device is connected, and returns its token; undefined after 10 s. */
async function waitForToken(logPath: string): Promise<string | undefined> {
  const deadline = performance.now() + DEVICE_TIMEOUT_MS;
  while (performance.now() < deadline) {
    const found = /^\{"event":"connected","token":"([^"]+)"/m.exec(readFileSync(logPath, 'utf8'));
    if (found !== null) return found[1];
    // A stop must not wait for the device.
    await sleep(DEVICE_POLL_INTERVAL_MS, undefined, { ref: false });
  }
  return undefined;
}

/**
 * Starts the watchdog: a shell that reads its standard input, which ends when this process does, and
 * then runs the clean-up. (A waiting shell uses 1 MB of memory, a waiting Node 40 MB.)
 */
function startWatchdog(dataDirPath: string) {
  const child = spawn(
    '/bin/sh',
    ['-c', 'cat >/dev/null; exec "$0" "$@"', process.execPath, WATCHDOG_SCRIPT, dataDirPath],
    {
      // The supervisor's own environment contains the passwords of REDIS_URL and MONGODB_URI.
      env: pickVariables(process.env, ['PATH']),
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
    },
  );
  // Without a watchdog only the clean-up after a kill -9 is missing.
  child.on('error', () => undefined);
  return {
    /** Ends the watchdog: the supervisor has stopped every process itself. */
    cancel: (): void => {
      if (child.pid === undefined || child.exitCode !== null) return;
      process.kill(-child.pid, 'SIGKILL');
    },
  };
}
