import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import type { ScriptedResponse } from '../support/providers/sandbox.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Flag, GoneDevice } from './history.ts';
import type { LogLine } from './load.ts';
import type { Plan } from './plan.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Responses of the providers to all requests for a device that is gone. */
const RESPONSES: Readonly<Record<GoneDevice['channel'], ScriptedResponse>> = {
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
  swarm: Pick<Swarm, 'tokens' | 'addressOf'>,
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
    const { channel, address } = known;
    const startedAtMs = Date.now();
    await sandbox.scriptPermanently(channel, address, RESPONSES[channel]);
    gone.push({ tenant, token, channel, startedAtMs, goneAtMs: Date.now() });
    log({ op: 'gone', type: 'ok', at: startedAtMs, token, channel });
  }
  return gone;
}

/** Reads which of some devices have a flag, by their tokens. */
export async function readFlags(
  dev: TestTenant['dev'],
  tokens: readonly string[],
): Promise<Record<string, Flag>> {
  type Presence = { id: string } & Partial<Record<Flag, boolean>>;
  const { json } = await callApi<{ presence: Presence[] }>(dev, 'POST', '/devices/presence', {
    tokens,
  });
  const flags: Record<string, Flag> = {};
  for (const { id, uninstalled, unsubscribed } of json.presence) {
    if (uninstalled === true) flags[id] = 'uninstalled';
    else if (unsubscribed === true) flags[id] = 'unsubscribed';
  }
  return flags;
}
