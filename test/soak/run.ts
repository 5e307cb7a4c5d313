import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver } from '../support/api/webhook-receiver.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { callApi } from '../support/stack/call-api.ts';
import {
  collectDevices,
  collectEnds,
  collectFlags,
  collectReports,
  collectShown,
  type Reporting,
} from './collect-ends.ts';
import { applyFault } from './faults.ts';
import { makeGone } from './gone.ts';
import {
  type AppliedFault,
  type FailedFault,
  type GoneDevice,
  type History,
  LEFT,
  type Left,
  type SentPush,
} from './history.ts';
import { type LogLine, type Sender, sendPushes } from './load.ts';
import { watchMemory } from './memory.ts';
import { objectOf, type Plan, type PlannedFault, type TenantName } from './plan.ts';
import { sendProbes } from './probes.ts';
import { createRandom } from './random.ts';
import { addStored } from './read-stored.ts';
import { openRest, type Rest } from './rest.ts';
import { createSwarm, type Swarm, type SwarmSize } from './swarm.ts';
import type { System } from './system.ts';

/** Devices of each tenant. */
const DEVICES: Record<TenantName, SwarmSize> = {
  a: { connected: 100, ofProvider: 40 },
  b: { connected: 10, ofProvider: 5 },
};
/** Number of devices of each tenant, of all channels. */
export const DEVICE_COUNTS: Record<TenantName, number> = {
  a: countDevices(DEVICES.a),
  b: countDevices(DEVICES.b),
};
/** Number of those with MQTT alone. */
export const MQTT_ONLY: Record<TenantName, number> = {
  a: DEVICES.a.connected,
  b: DEVICES.b.connected,
};
export const TOPICS = 3;
const SUBSCRIBERS = 50;
/** A new webhook counts within this time. */
const WEBHOOK_KNOWN_MS = 10_000;
/**
 * Work that is to be done before the probes. Messages that a gateway had handled may be in its stream again, or still, after a
 * fault of Redis: it removes them with the next one.
 */
const BEFORE_PROBES: readonly Left[] = LEFT.filter((kind) => kind !== 'gatewayMessages');

/** Sources of the observations of a run. */
interface Observed {
  system: System;
  swarm: Swarm;
  mongo: TestMongo;
  tenants: Record<TenantName, TestTenant>;
  reporting: Reporting;
}

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
    const memory = watchMemory(system, plan);
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
    log({ op: 'settle', type: 'ok', at: settledAtMs });
    return {
      ...{ seed: plan.seed, pushes, probes, settledAtMs, left, removed: [], gone },
      ...{ faults, failedFaults },
      ...(await collect(
        { system, swarm, mongo, tenants, reporting },
        plan,
        { pushes: [...pushes, ...probes], gone },
        log,
      )),
      arrivals: await swarm.listArrivals(),
      refusals: swarm.listRefusals(),
      refusedConnects: swarm.refusedConnects(),
      observerLags: swarm.observerLags(),
      ...system.listDeaths(),
      memory: memory(),
    };
  } finally {
    await swarm.stop();
    await reporting.receiver.stop();
    await mongo.close();
  }
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

/** Collects what the system shows of a run, one after the other. */
async function collect(
  { system, swarm, mongo, tenants, reporting }: Observed,
  { seed }: Pick<Plan, 'seed'>,
  { pushes, gone }: { pushes: readonly SentPush[]; gone: readonly GoneDevice[] },
  log: LogLine,
): Promise<Pick<History, 'devices' | 'flags' | 'ends' | 'shown' | 'reports'>> {
  const collected = (what: string) => log({ op: `collect ${what}`, type: 'ok', at: Date.now() });
  await addStored(mongo.db, tenants, pushes);
  collected('stored pushes');
  const flags = await collectFlags(tenants, swarm);
  const devices = await collectDevices(tenants, swarm);
  collected('devices');
  const source = { store: system.store, db: mongo.db };
  const ends = await collectEnds(source, tenants, { pushes, seed });
  collected('ends');
  const shown = await collectShown(tenants, pushes);
  collected('shown');
  const reports = await collectReports(reporting, { pushes, gone }, ends);
  collected('reports');
  return { devices, flags, ends, shown, reports };
}

function countDevices({ connected, ofProvider }: SwarmSize): number {
  return connected + 3 * ofProvider;
}

/** Subscribes devices of a tenant to topics, whose names are those of every other tenant. */
async function createSender({ dev }: TestTenant, tokens: readonly string[]): Promise<Sender> {
  const random = createRandom(tokens.length);
  const topics = Array.from({ length: TOPICS }, (_, index) => ({
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

/** Applies the faults at their times, also while others last, but one at a time to each object. */
async function applyFaults(
  system: System,
  swarm: Swarm,
  plan: Pick<Plan, 'faults'>,
  log: LogLine,
): Promise<{ faults: AppliedFault[]; failedFaults: FailedFault[] }> {
  const startedAt = performance.now();
  const faults: AppliedFault[] = [];
  const failedFaults: FailedFault[] = [];
  const applying = new Map<string, Promise<void>>();
  const apply = async (planned: PlannedFault): Promise<void> => {
    const { fault, index, durationMs } = planned;
    log({ op: 'fault', type: 'invoke', at: Date.now(), fault, index, durationMs });
    const applied: AppliedFault = { fault, index, atMs: Date.now() };
    faults.push(applied);
    const error = await applyFault(system, swarm, planned).then(
      () => undefined,
      (reason: unknown) => String(reason),
    );
    if (error === undefined) applied.healedAtMs = Date.now();
    else failedFaults.push({ fault: `${fault} ${index}`, error });
    const type = error === undefined ? 'ok' : 'fail';
    log({ op: 'fault', type, at: Date.now(), fault, index, error });
  };
  for (const planned of plan.faults) {
    await sleep(Math.max(0, startedAt + planned.atMs - performance.now()));
    const object = objectOf(planned);
    if (applying.has(object)) {
      log({ op: 'fault', type: 'skip', at: Date.now(), fault: planned.fault });
      continue;
    }
    const applied = apply(planned).finally(() => applying.delete(object));
    applying.set(object, applied);
  }
  await Promise.all(applying.values());
  return { faults, failedFaults };
}
