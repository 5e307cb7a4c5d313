import { type Child, type ChildPlan, createChild } from './child.ts';
import { createCarillon } from './command-line.ts';
import { checkGivenRedis, planDataServers } from './data-servers.ts';
import { type Handover, urlAt } from './handover.ts';
import type { Home } from './home.ts';
import { startLeash } from './leash.ts';
import { createRegister } from './register.ts';
import { openSecrets } from './secrets.ts';
import { commonEnv, planServices } from './services.ts';
import { planSimulatedDevice } from './simulated-device.ts';
import { ensureTenant, migrate, type Tenant } from './tenant.ts';

const SERVICE_PATIENCE_MS = 15_000;
const SERVER_PATIENCE_MS = 60_000;
const HURRIED_SERVER_PATIENCE_MS = 3000;

/** The order of a stop: who brings work in first, who carries it out last. */
const STOP_ORDER = [
  ['simulated device'],
  ['api'],
  ['scheduler'],
  ['delivery-worker'],
  ['device-gateway'],
  ['redis'],
  ['mongodb'],
];
const SERVERS = ['redis', 'mongodb'];

/** A stack that is ready. */
export interface Running extends Tenant {
  api: string;
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
  const children: Child[] = [];
  const register = createRegister(home, () => children);
  const cut = new AbortController();
  const leash = startLeash(home.path);
  let stopping: Promise<void> | undefined;

  function add(plan: ChildPlan): Child {
    const child = createChild(plan, { changed: register.changed, say });
    children.push(child);
    return child;
  }

  function startAll(plans: ChildPlan[]): Promise<unknown> {
    cut.signal.throwIfAborted();
    return Promise.all(plans.map(add).map((child) => child.start()));
  }

  async function start(): Promise<Running> {
    const secrets = openSecrets(home);
    const servers = planDataServers(handover, home);
    await Promise.all([checkGivenRedis(handover), startAll(servers.plans)]);
    const env = commonEnv(handover, servers, secrets);
    const carillon = createCarillon(handover.root, env, cut.signal);
    await migrate(carillon);
    const [tenant] = await Promise.all([
      ensureTenant(carillon, home, secrets),
      startAll(planServices(handover, home, env)),
    ]);
    const addresses = {
      api: urlAt('http', handover.host, handover.ports.api),
      mqtt: urlAt('mqtt', handover.host, handover.ports.mqtt),
    };
    const device = handover.demo ? await startDevice(tenant.app, env, addresses) : undefined;
    cut.signal.throwIfAborted();
    register.ready({
      version: handover.version,
      ...addresses,
      ...tenant,
      mongodb: servers.mongodbUri,
      redis: servers.redisUrl,
      ...(device?.token === undefined ? {} : { device: device.token }),
    });
    return { ...tenant, api: addresses.api, ...(device === undefined ? {} : { device }) };
  }

  async function startDevice(
    app: string,
    env: NodeJS.ProcessEnv,
    addresses: { api: string; mqtt: string },
  ): Promise<{ token: string | undefined; log: string }> {
    const { plan, log, token } = planSimulatedDevice(handover.root, home, app, {
      ...env,
      CARILLON_API: addresses.api,
      CARILLON_MQTT: addresses.mqtt,
    });
    await startAll([plan]);
    return { token: await token(), log };
  }

  async function stopInOrder(): Promise<void> {
    cut.abort();
    register.stopped();
    for (const services of STOP_ORDER) {
      const isServer = services.some((service) => SERVERS.includes(service));
      await stopEach(services, isServer ? SERVER_PATIENCE_MS : SERVICE_PATIENCE_MS);
    }
    register.close();
    leash.end();
    home.unlock();
  }

  async function stopEach(services: readonly string[], patienceMs: number): Promise<void> {
    const chosen = children.filter(({ plan }) => services.includes(plan.service));
    await Promise.all(chosen.map((child) => child.stop(patienceMs)));
  }

  function hurry(): void {
    for (const child of children) {
      const isServer = SERVERS.includes(child.plan.service);
      void child.stop(isServer ? HURRIED_SERVER_PATIENCE_MS : 0);
    }
  }

  return {
    start,
    stop: () => {
      if (stopping === undefined) stopping = stopInOrder();
      else hurry();
      return stopping;
    },
  };
}
