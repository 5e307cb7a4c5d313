import { createCarillon } from './command-line.ts';
import { createCrew } from './crew.ts';
import { checkGivenRedis, planDataServers } from './data-servers.ts';
import { type Handover, urlAt } from './handover.ts';
import type { Home } from './home.ts';
import { startLeash } from './leash.ts';
import { openSecrets } from './secrets.ts';
import { commonEnv, planSandbox, planServices } from './services.ts';
import { planSimulatedDevice } from './simulated-device.ts';
import { ensureTenant, migrate, type Tenant } from './tenant.ts';
import { ensureTlsFiles, keepTlsFiles } from './tls-files.ts';

/** A stack that is ready. */
export interface Running extends Tenant {
  api: string;
  /** What plays Apple, Google and the browsers' push services. */
  sandbox: string;
  /** Token and log of the simulated device; without a token it is not connected yet. */
  device?: { token: string | undefined; log: string };
}

export interface Stack {
  /** Starts everything; resolves when all of it is ready. */
  start(): Promise<Running>;
  /** Stops everything in order. Called again meanwhile: at once. */
  stop(): Promise<void>;
}

/** Makes the stack of a handover; `say` prints a line for the person at the terminal. */
export function createStack(handover: Handover, home: Home, say: (line: string) => void): Stack {
  const crew = createCrew(home, say);
  const cut = new AbortController();
  const leash = startLeash(home.path);
  const addresses = addressesOf(handover);
  let stopping: Promise<void> | undefined;
  let stopKeepingTls: (() => void) | undefined;

  async function start(): Promise<Running> {
    const secrets = openSecrets(home);
    const servers = planDataServers(handover, home);
    const first = [...servers.plans, ...planSandbox(handover, home)];
    await Promise.all([checkGivenRedis(handover), crew.start(first)]);
    const tls = await ensureTlsFiles(home, handover.host);
    // Begun behind a stop, the renewal's timer would keep the process alive for ever.
    cut.signal.throwIfAborted();
    stopKeepingTls = keepTlsFiles(home, handover.host, say);
    const env = commonEnv(handover, home, servers, secrets, tls);
    const carillon = createCarillon(handover.root, env, cut.signal);
    await migrate(carillon);
    cut.signal.throwIfAborted();
    const [tenant] = await Promise.all([
      ensureTenant(carillon, home, secrets),
      crew.start(planServices(handover, home, env)),
    ]);
    cut.signal.throwIfAborted();
    const device = handover.demo ? await startDevice(tenant.app, env) : undefined;
    cut.signal.throwIfAborted();
    crew.register.ready({
      version: handover.version,
      ...addresses,
      ca: tls.ca,
      ...tenant,
      mongodb: servers.mongodbUri,
      redis: servers.redisUrl,
      ...(device?.token === undefined ? {} : { device: device.token }),
    });
    const { api, sandbox } = addresses;
    return { ...tenant, api, sandbox, ...(device === undefined ? {} : { device }) };
  }

  async function startDevice(app: string, env: NodeJS.ProcessEnv): Promise<Running['device']> {
    const { plan, log, token } = planSimulatedDevice(handover.root, home, app, {
      ...env,
      CARILLON_API: addresses.api,
      CARILLON_MQTT: addresses.mqtt,
    });
    await crew.start([plan]);
    return { token: await token(), log };
  }

  async function stop(): Promise<void> {
    cut.abort();
    stopKeepingTls?.();
    await crew.stop();
    leash.end();
    home.unlock();
  }

  return {
    start,
    stop: () => {
      if (stopping === undefined) stopping = stop();
      else crew.hurry();
      return stopping;
    },
  };
}

function addressesOf(handover: Handover) {
  return {
    api: urlAt('http', handover.host, handover.ports.api),
    mqtt: urlAt('mqtt', handover.host, handover.ports.mqtt),
    mqtts: urlAt('mqtts', handover.host, handover.ports.mqtts),
    ws: urlAt('ws', handover.host, handover.ports.ws),
    sandbox: urlAt('http', handover.privateHost, handover.ports.sandbox),
  };
}
