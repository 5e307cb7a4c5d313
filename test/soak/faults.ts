import { setTimeout as sleep } from 'node:timers/promises';
import type { ScriptedResponse } from '../support/providers/sandbox.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import type { AppliedFault, GoneDevice, History } from './history.ts';
import type { LogLine } from './load.ts';
import { objectOf, type Plan, type PlannedFault } from './plan.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Each response of a slow MongoDB is so much later. */
const SLOW_MS = 500;

type Wait = () => Promise<void>;

/** Does one fault and heals it. Resolves when it is healed. */
async function applyFault(
  system: System,
  swarm: Pick<Swarm, 'cutAll'>,
  { fault, index, durationMs }: PlannedFault,
): Promise<unknown> {
  const wait = () => sleep(durationMs);
  const { sandbox, redis, redisProxy, mongoProxy, kill, stopDuring } = system;
  const special: Record<string, () => unknown> = {
    'cut devices': () => swarm.cutAll(),
    'kill redis': () => during(redis.kill, redis.start, wait),
    'stop redis': () => during(redis.freeze, redis.thaw, wait),
    'roll back redis': () => redis.restoreAfter(wait),
    'cut redis': () => during(redisProxy.cut, () => heal(redisProxy), wait),
    'drop responses of redis': () => during(redisProxy.dropResponses, () => heal(redisProxy), wait),
    'kill mongodb': () => kill('mongodb', 0),
    'stop mongodb': () => stopDuring('mongodb', 0, wait),
    'cut mongodb': () => during(mongoProxy.cut, () => heal(mongoProxy), wait),
    'drop responses of mongodb': () =>
      during(mongoProxy.dropResponses, () => heal(mongoProxy), wait),
    'slow mongodb': () =>
      during(() => mongoProxy.delayResponses(SLOW_MS), mongoProxy.restore, wait),
    async 'flush redis'() {
      const client = await openRedis({ redis: redis.url });
      await emptyRedis(client).finally(() => client.disconnect());
    },
    ...Object.fromEntries(
      PROVIDER_FAULTS.map(([name, channel, faults, healed]) => [
        name,
        () =>
          during(
            () => sandbox.setFaults(channel, faults),
            () => sandbox.setFaults(channel, healed),
            wait,
          ),
      ]),
    ),
  };
  const [verb, service = ''] = fault.split(' ');
  if (special[fault] !== undefined) return special[fault]();
  return verb === 'kill' ? kill(service, index) : stopDuring(service, index, wait);
}

type Faults = Record<string, unknown>;
const PROVIDER_FAULTS: readonly (readonly [string, string, Faults, Faults])[] = [
  ['slow apns', 'apns', { delayMs: 1_000 }, { delayMs: 0 }],
  ['silent fcm', 'fcm', { blackHole: true }, { blackHole: false }],
  ['dropping web-push', 'web-push', { dropEvery: 3 }, { dropEvery: null }],
];

async function during(begin: () => unknown, end: () => unknown, wait: Wait): Promise<void> {
  await begin();
  await wait();
  await end();
}

/** Connections that pass no responses stay so until they break. */
function heal(proxy: TcpProxy): void {
  proxy.cut();
  proxy.restore();
}

/** Applies the faults at their times, also while others last, but one at a time to each object. */
export async function applyFaults(
  system: System,
  swarm: Swarm,
  plan: Pick<Plan, 'faults'>,
  log: LogLine,
): Promise<Pick<History, 'faults' | 'failedFaults'>> {
  const startedAt = performance.now();
  const faults: AppliedFault[] = [];
  const failedFaults: History['failedFaults'][number][] = [];
  const applying = new Map<string, Promise<void>>();
  const apply = async (planned: PlannedFault): Promise<void> => {
    const { fault, index, durationMs } = planned;
    const line = { op: 'fault', fault, index };
    log({ ...line, type: 'invoke', at: Date.now(), durationMs });
    const applied: AppliedFault = { fault, index, atMs: Date.now() };
    faults.push(applied);
    try {
      await applyFault(system, swarm, planned);
      applied.healedAtMs = Date.now();
      log({ ...line, type: 'ok', at: Date.now() });
    } catch (error) {
      failedFaults.push({ fault: `${fault} ${index}`, error: String(error) });
      log({ ...line, type: 'fail', at: Date.now(), error: String(error) });
    }
  };
  for (const planned of plan.faults) {
    await sleep(Math.max(0, startedAt + planned.atMs - performance.now()));
    const object = objectOf(planned);
    if (applying.has(object)) log({ op: 'fault', type: 'skip', fault: planned.fault });
    else
      applying.set(
        object,
        apply(planned).finally(() => applying.delete(object)),
      );
  }
  await Promise.all(applying.values());
  return { faults, failedFaults };
}

/** Responses of the providers to all requests for a device that is gone. */
const GONE_RESPONSES: Readonly<Record<GoneDevice['channel'], ScriptedResponse>> = {
  apns: { as: 'Unregistered' },
  fcm: { as: 'UNREGISTERED' },
  'web-push': { status: 410 },
};

/**
 * Lets the providers report devices as gone, each from its time on. No fault of a run is about the sandbox's process, which
 * would lose this.
 */
export async function makeGone(
  { sandbox }: Pick<System, 'sandbox'>,
  swarm: Swarm,
  plan: Pick<Plan, 'gone'>,
  log: LogLine,
): Promise<GoneDevice[]> {
  const startedAt = performance.now();
  const gone: GoneDevice[] = [];
  for (const { atMs, tenant, device } of plan.gone) {
    await sleep(Math.max(0, startedAt + atMs - performance.now()));
    const token = swarm.tokens[tenant][device] ?? '';
    const known = swarm.addressOf(token);
    if (known === undefined) throw new Error(`the device ${tenant} ${device} has no provider`);
    const { channel, address, hasMqtt } = known;
    const startedAtMs = Date.now();
    await sandbox.scriptPermanently(channel, address, GONE_RESPONSES[channel]);
    const goneAtMs = Date.now();
    gone.push({ tenant, token, channel, startedAtMs, goneAtMs, ...(hasMqtt && { hasMqtt }) });
    log({ op: 'gone', type: 'ok', at: startedAtMs, token, channel });
  }
  return gone;
}
