import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver } from '../support/api/webhook-receiver.ts';
import { type JobQueues, openJobQueues } from '../support/faults/job-queues.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import {
  collectDevices,
  collectEnds,
  collectReports,
  collectShown,
  type Reporting,
} from './collect-ends.ts';
import { applyFault } from './faults.ts';
import type { AppliedFault, FailedFault, History } from './history.ts';
import { type LogLine, type Sender, sendPushes } from './load.ts';
import { watchMemory } from './memory.ts';
import { objectOf, type Plan, type PlannedFault, TENANT_NAMES, type TenantName } from './plan.ts';
import { createRandom } from './random.ts';
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
export const TOPICS = 3;
const SUBSCRIBERS = 50;
/** A new webhook counts within this time. */
const WEBHOOK_KNOWN_MS = 10_000;
const SETTLE_MS = 180_000;

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
    const faulting = applyFaults(system, swarm, plan, log);
    const memory = watchMemory(system, plan);
    const pushes = await sendPushes(senders, plan, log);
    const { faults, failedFaults } = await faulting;
    // Devices that can't connect are found by what is left for them.
    await swarm.heal().catch((error) => log({ op: 'heal', type: 'fail', error: String(error) }));
    const queues = await openJobQueues(system.redis);
    const left = await untilAtRest({ mongo, queues }, tenants, log).finally(queues.close);
    const settledAtMs = Date.now();
    log({ op: 'settle', type: 'ok', at: settledAtMs });
    const devices = await collectDevices(tenants, swarm);
    log({ op: 'collect devices', type: 'ok', at: Date.now() });
    const source = { store: system.store, db: mongo.db };
    const ends = await collectEnds(source, tenants, { pushes, seed: plan.seed });
    log({ op: 'collect ends', type: 'ok', at: Date.now() });
    const shown = await collectShown(tenants, pushes);
    log({ op: 'collect shown', type: 'ok', at: Date.now() });
    const reports = await collectReports(reporting, pushes, ends);
    log({ op: 'collect reports', type: 'ok', at: Date.now() });
    return {
      ...{ seed: plan.seed, pushes, settledAtMs, left, removed: [], devices, ends },
      ...{ faults, failedFaults, shown, reports },
      arrivals: await swarm.listArrivals(),
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

/** Waits until nothing is pending; returns what still is when the time is over. */
async function untilAtRest(
  { mongo, queues }: { mongo: TestMongo; queues: JobQueues },
  tenants: Record<TenantName, TestTenant>,
  log: LogLine,
): Promise<History['left']> {
  const pushes = mongo.db.collection<{ _id: string }>('pushes');
  const batches = mongo.db.collection<{ push: string }>('batches');
  const app = { $in: TENANT_NAMES.map((name) => tenants[name].app) };
  const open = { app, 'work.state': { $in: ['waiting', 'ready'] } };
  /** Lists the pushes with an open batch; the batches of a push that was not accepted stay with it for an hour. */
  async function listOpenPushes(): Promise<string[]> {
    const ids = await batches.distinct('push', open);
    const abandoned = await pushes.distinct('_id', { _id: { $in: ids }, state: 'abandoned' });
    const embedded = await pushes.distinct('_id', open);
    return [...embedded, ...ids.filter((id) => !abandoned.includes(id))];
  }
  let left: History['left'] = {
    ...{ openBatches: 0, inboxRows: 0, waitingPushes: 0, endings: 0, jobs: 0 },
  };
  const isAtRest = async () => {
    left = {
      openBatches: (await listOpenPushes()).length,
      inboxRows: await mongo.db.collection('inbox').countDocuments({}),
      waitingPushes: await pushes.countDocuments({
        ...{ app, state: { $in: ['accepting', 'scheduled'] } },
      }),
      endings: await pushes.countDocuments({ app, ending: { $exists: true } }),
      jobs: await queues.countLeft(),
    };
    return Object.values(left).every((count) => count === 0);
  };
  const atRest = until(isAtRest, { timeoutMs: SETTLE_MS, everyMs: 1_000 });
  await atRest.catch(async () => log({ op: 'rest', type: 'fail', ids: await listOpenPushes() }));
  return left;
}
