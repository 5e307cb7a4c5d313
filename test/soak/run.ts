import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { type JobQueues, openJobQueues } from '../support/faults/job-queues.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import { acceptedId } from './checker.ts';
import { applyFault } from './faults.ts';
import type { History, PushEnd, SentPush } from './history.ts';
import { type LogLine, sendPushes } from './load.ts';
import { watchMemory } from './memory.ts';
import type { Plan } from './plan.ts';
import { createRandom } from './random.ts';
import type { AppliedFault } from './recovery.ts';
import { createSwarm, type Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Devices with MQTT, and of each provider. */
export const DEVICES = { connected: 100, ofProvider: 40 };
export const TOPICS = 3;
const SUBSCRIBERS = 50;
const SETTLE_MS = 180_000;
const READS_AT_ONCE = 10;

/** Runs a plan on a system, waits until all is at rest, and collects the history. */
export async function run(
  system: System,
  plan: Plan,
  log: LogLine,
): Promise<{ history: History; faults: AppliedFault[] }> {
  const tenant = await system.tenant();
  const swarm = await createSwarm(system, tenant, createRandom(plan.seed + 2), DEVICES);
  const mongo = await openMongo(system.stack.dev);
  const queues = await openJobQueues(system.redis);
  try {
    const topics = await createTopics(tenant, swarm.tokens);
    const faults: AppliedFault[] = [];
    const faulting = applyFaults(system, swarm, plan, { log, faults });
    const memory = watchMemory(system, plan);
    const pushes = await sendPushes(tenant, plan, { tokens: swarm.tokens, topics }, log);
    await faulting;
    await swarm.heal();
    const left = await untilAtRest({ mongo, queues }, tenant, log);
    const settledAtMs = Date.now();
    return {
      faults,
      history: {
        ...{ pushes, settledAtMs, left, removed: [], observerLagMs: swarm.lagMs() },
        arrivals: await swarm.listArrivals(),
        ends: await collectEnds(system, tenant, pushes),
        ...system.listDeaths(),
        memory: memory(),
      },
    };
  } finally {
    await swarm.stop();
    await queues.close();
    await mongo.close();
  }
}

async function createTopics({ dev }: TestTenant, tokens: readonly string[]) {
  const random = createRandom(tokens.length);
  const topics = Array.from({ length: TOPICS }, (_, index) => ({
    name: `soak-${index}`,
    tokens: random.sample(tokens, SUBSCRIBERS),
  }));
  for (const { name, tokens: subscribers } of topics)
    for (const token of subscribers)
      await callApi(dev, 'POST', '/topics/subscribe', { token, topics: [name] });
  return topics;
}

async function applyFaults(
  system: System,
  swarm: Swarm,
  plan: Pick<Plan, 'faults'>,
  { log, faults }: { log: LogLine; faults: AppliedFault[] },
): Promise<void> {
  const startedAt = performance.now();
  for (const planned of plan.faults) {
    await sleep(Math.max(0, startedAt + planned.atMs - performance.now()));
    const { fault, index, durationMs } = planned;
    log({ op: 'fault', type: 'invoke', at: Date.now(), fault, index, durationMs });
    const applied: AppliedFault = { fault, atMs: Date.now() };
    faults.push(applied);
    const error = await applyFault(system, swarm, planned).then(
      () => undefined,
      (reason: unknown) => String(reason),
    );
    if (error === undefined) applied.healedAtMs = Date.now();
    log({ op: 'fault', type: error === undefined ? 'ok' : 'fail', at: Date.now(), fault, error });
  }
}

/** Waits until nothing is pending; returns what still is when the time is over. */
async function untilAtRest(
  { mongo, queues }: { mongo: TestMongo; queues: JobQueues },
  { app }: TestTenant,
  log: LogLine,
): Promise<History['left']> {
  const pushes = mongo.db.collection<{ _id: string }>('pushes');
  const batches = mongo.db.collection<{ push: string }>('batches');
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

async function collectEnds(
  { store }: Pick<System, 'store'>,
  { dev }: TestTenant,
  pushes: readonly SentPush[],
): Promise<Record<string, PushEnd>> {
  const ends: Record<string, PushEnd> = {};
  const remaining = [...pushes];
  const collectNext = async () => {
    for (let push = remaining.pop(); push !== undefined; push = remaining.pop()) {
      const id = acceptedId(push);
      const status = id && (await store.deliveryStatus.statusOfPush(id));
      if (id === undefined || !status) continue;
      const recipients: Record<string, string> = {};
      for (const token of push.audience)
        recipients[token] =
          (await store.deliveryStatus.statusOfRecipient(id, token))?.outcome ?? 'none';
      const shown = await callApi<{ push?: { pending_devices: string[] } }>(
        dev,
        'GET',
        `/pushes/${id}`,
      );
      const pendingDevices = shown.json.push?.pending_devices;
      ends[id] = {
        ...{ counts: status.outcomes as Record<string, number>, recipients },
        ...(pendingDevices && { pendingDevices }),
      };
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, collectNext));
  return ends;
}
