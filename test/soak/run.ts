import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver } from '../support/api/webhook-receiver.ts';
import { openMongo } from '../support/mongo.ts';
import { callApi } from '../support/stack/call-api.ts';
import {
  collectDevices,
  collectEnds,
  collectReports,
  collectShown,
  type Reporting,
  readFlags,
} from './collect.ts';
import { applyFaults, makeGone } from './faults.ts';
import { compareMemory } from './figures.ts';
import { type GoneDevice, type History, LEFT, type Left } from './history.ts';
import { type LogLine, type Sender, sendPushes } from './load.ts';
import { createRandom, type Plan, TENANT_NAMES, type TenantName } from './plan.ts';
import { sendProbes } from './probes.ts';
import { addStored } from './read-stored.ts';
import { openRest, type Rest } from './rest.ts';
import { createSwarm, PROVIDER_KINDS, type Swarm, type SwarmSize } from './swarm.ts';
import type { System } from './system.ts';

/** Devices of each tenant. */
const DEVICES: Record<TenantName, SwarmSize> = {
  a: { connected: 100, ofProvider: 40 },
  b: { connected: 10, ofProvider: 5 },
};
const countDevices = ({ connected, ofProvider }: SwarmSize) =>
  connected + PROVIDER_KINDS * ofProvider;
/** What a plan has to know of the devices: the number of each tenant, of all channels, and of those with MQTT alone. */
export const DEVICE_SETTINGS = {
  devices: { a: countDevices(DEVICES.a), b: countDevices(DEVICES.b) },
  mqttOnly: { a: DEVICES.a.connected, b: DEVICES.b.connected },
  topics: 3,
};
const SUBSCRIBERS = 50;
/** A new webhook counts within this time. */
const WEBHOOK_KNOWN_MS = 10_000;
/**
 * Work that is to be done before the probes. Messages that a gateway had handled may be in its stream again, or still, after a
 * fault of Redis: it removes them with the next one.
 */
const BEFORE_PROBES: readonly Left[] = LEFT.filter((kind) => kind !== 'gatewayMessages');

/** Memory is compared in runs that are long enough for it to stop growing. */
const MEMORY_RUN_MS = 10 * 60_000;
const MEMORY_EVERY_MS = 10_000;

/** Runs a plan on a system, waits until all is at rest, and collects the history. */
export async function run(system: System, plan: Plan, log: LogLine): Promise<History> {
  const tenants = { a: await system.tenant(), b: await system.tenant() };
  const reporting = await addWebhook(tenants, 'b');
  const swarm = await createSwarm(system, tenants, DEVICES, plan.seed + 2);
  const mongo = await openMongo(system.stack.dev);
  try {
    const senders = {
      a: await createSender(tenants.a, swarm.tokens.a),
      b: await createSender(tenants.b, swarm.tokens.b),
    };
    const readMemory = watchMemory(system, plan);
    const [pushes, { faults, failedFaults }, gone] = await Promise.all([
      sendPushes(senders, plan, log),
      applyFaults(system, swarm, plan, log),
      makeGone(system, swarm, plan, log),
    ]);
    const rest = await openRest(system, mongo.db, tenants, log);
    const { probes, left } = await settle(senders, { swarm, plan, gone, rest }, log).finally(
      rest.close,
    );
    const settledAtMs = Date.now();
    const logTime = (what: string) => log({ op: what, type: 'ok', at: Date.now() });
    logTime('settle');
    // What the system shows of the run, one after the other.
    const all = [...pushes, ...probes];
    await addStored(mongo.db, tenants, all);
    const flags = await Promise.all(
      TENANT_NAMES.map((name) => readFlags(tenants[name].dev, swarm.tokens[name])),
    );
    const devices = await collectDevices(tenants, swarm);
    logTime('collect devices');
    const source = { store: system.store, db: mongo.db };
    const ends = await collectEnds(source, tenants, { pushes: all, seed: plan.seed });
    logTime('collect ends');
    const shown = await collectShown(tenants, all);
    logTime('collect shown');
    const reports = await collectReports(reporting, { pushes: all, gone }, ends);
    logTime('collect reports');
    return {
      ...{ seed: plan.seed, pushes, probes, settledAtMs, left, gone, faults, failedFaults },
      ...{ flags: Object.assign({}, ...flags), devices, ends, shown, reports },
      ...(await swarm.listSeen()),
      ...system.listDeaths(),
      memory: readMemory(),
    };
  } finally {
    await swarm.stop();
    await reporting.receiver.stop();
    await mongo.close();
  }
}

/** Starts reading the memory of the processes; returns a function that stops and compares. */
function watchMemory(system: System, { pushes }: Pick<Plan, 'pushes'>): () => History['memory'] {
  const lengthMs = pushes.at(-1)?.atMs ?? 0;
  if (lengthMs < MEMORY_RUN_MS) return () => [];
  const samples: { atMs: number; service: string; bytes: number }[] = [];
  const startedAt = performance.now();
  const timer = setInterval(() => {
    const atMs = performance.now() - startedAt;
    for (const one of system.readMemory()) samples.push({ atMs, ...one });
  }, MEMORY_EVERY_MS);
  return () => {
    clearInterval(timer);
    return compareMemory(samples, lengthMs);
  };
}

/** Heals the devices, waits until all is at rest, sends the probes, and waits again. */
async function settle(
  senders: Record<TenantName, Sender>,
  { rest, ...run }: { swarm: Swarm; plan: Plan; gone: readonly GoneDevice[]; rest: Rest },
  log: LogLine,
): Promise<Pick<History, 'probes' | 'left'>> {
  // Devices that can't connect are found by what is left for them.
  const heal = () =>
    run.swarm.heal().catch((error) => log({ op: 'heal', type: 'fail', error: String(error) }));
  await heal();
  await rest.untilAtRest(BEFORE_PROBES);
  log({ op: 'rest', type: 'ok', at: Date.now() });
  const probes = await sendProbes(senders, run, log);
  await heal();
  return { probes, left: await rest.untilAtRest(LEFT) };
}

/** Subscribes devices of a tenant to topics, whose names are those of every other tenant. */
async function createSender({ dev }: TestTenant, tokens: readonly string[]): Promise<Sender> {
  const random = createRandom(tokens.length);
  const topics = Array.from({ length: DEVICE_SETTINGS.topics }, (_, index) => ({
    name: `soak-${index}`,
    tokens: random.sample(tokens, SUBSCRIBERS),
  }));
  for (const { name, tokens: subscribers } of topics)
    for (const token of subscribers)
      await callApi(dev, 'POST', '/topics/subscribe', { token, topics: [name] });
  return { dev, tokens, topics };
}

/** Adds a webhook to a tenant. The API knows it some seconds later. */
async function addWebhook(
  tenants: Record<TenantName, TestTenant>,
  tenant: TenantName,
): Promise<Reporting> {
  const receiver = await addReceiver(tenants[tenant]);
  return { tenant, receiver, sinceMs: Date.now() + WEBHOOK_KNOWN_MS };
}
