import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../support/until.ts';
import { readFlags } from './collect.ts';
import type { GoneDevice, SentPush } from './history.ts';
import { type LogLine, type Sender, sendPushes } from './load.ts';
import {
  LONG_TTL_SECONDS,
  type Plan,
  type PlannedPush,
  TENANT_NAMES,
  type TenantName,
} from './plan.ts';
import type { Swarm } from './swarm.ts';

/** Longest time until a provider has reported that a device is gone, and the API shows it. */
const FLAGGED_MS = 60_000;
/** The devices stay away for so long: their fallback to FCM would be sent after a second. */
const FALLBACK_MS = 3_000;

/**
 * Sends pushes when all faults are healed: one to the devices that are gone, so that each has its flag, which the worker that
 * learnt of it may not have written before it was killed; and one to all devices. Those with MQTT that are gone at FCM are away
 * meanwhile, so that FCM is tried. Records when the flags were seen.
 */
export async function sendProbes(
  senders: Record<TenantName, Sender>,
  { swarm, plan, gone }: { swarm: Swarm; plan: Plan; gone: readonly GoneDevice[] },
  log: LogLine,
): Promise<SentPush[]> {
  const probes: SentPush[] = [];
  async function send(audiences: Record<TenantName, readonly number[]>): Promise<void> {
    const pushes = TENANT_NAMES.filter((tenant) => audiences[tenant].length > 0).map(
      (tenant): PlannedPush => ({
        ...{ atMs: 0, tenant, audience: { devices: [...audiences[tenant]] } },
        ttlSeconds: LONG_TTL_SECONDS,
      }),
    );
    const first = plan.pushes.length + probes.length;
    probes.push(...(await sendPushes(senders, { seed: plan.seed, pushes, first }, log)));
  }

  const isGone = (name: TenantName) => (device: number) =>
    plan.gone.some((one) => one.tenant === name && one.device === device);
  const all = { a: [...swarm.tokens.a.keys()], b: [...swarm.tokens.b.keys()] };
  await swarm.whileAway(new Set(gone.map(({ token }) => token)), async () => {
    await send({ a: all.a.filter(isGone('a')), b: all.b.filter(isGone('b')) });
    const isByProvider = ({ hasMqtt }: GoneDevice) => hasMqtt !== true;
    await untilFlagged(senders, gone.filter(isByProvider)).catch((error) =>
      log({ op: 'flag', type: 'fail', at: Date.now(), error: String(error) }),
    );
    await sleep(FALLBACK_MS);
    // Not those whose address was removed when they connected with an earlier flag.
    await recordFlags(senders, gone);
    await send(all);
    await sleep(FALLBACK_MS);
  });
  return probes;
}

async function untilFlagged(
  senders: Record<TenantName, Sender>,
  gone: readonly GoneDevice[],
): Promise<void> {
  const areFlagged = async () => {
    await recordFlags(senders, gone);
    return gone.every(({ flaggedAtMs }) => flaggedAtMs !== undefined);
  };
  await until(areFlagged, { timeoutMs: FLAGGED_MS, everyMs: 500, what: 'flags of all devices' });
}

/** Records the time for devices whose flag the API shows now, and did not show before. */
async function recordFlags(
  senders: Record<TenantName, Sender>,
  gone: readonly GoneDevice[],
): Promise<void> {
  for (const name of TENANT_NAMES) {
    const missing = gone.filter((one) => one.tenant === name && one.flaggedAtMs === undefined);
    if (missing.length === 0) continue;
    const flags = await readFlags(
      senders[name].dev,
      missing.map(({ token }) => token),
    );
    const flagged = missing.filter(({ token }) => flags[token] !== undefined);
    for (const device of flagged) device.flaggedAtMs = Date.now();
  }
}
