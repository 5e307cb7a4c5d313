import { Agent } from 'node:http';
import {
  createResources,
  createWebhook,
  readEverything,
  type TenantResources,
} from '../support/api/tenant-resources.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { send } from '../support/end-to-end/pushes.ts';
import {
  registerAndroid,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { registerDevice } from '../support/register-device.ts';
import type { FuzzRequest } from './arbitraries.ts';
import { fillRequest, sendRequest, type WireRequest, type WireResponse } from './request.ts';

/** Target of random requests: three tenants, of which no request has the key of the third. */
export interface FuzzTarget {
  api: string;
  /** Ids of all objects that accepted requests have created. */
  knownIds: Set<string>;
  /** Apps whose keys requests are sent with. */
  apps: string[];
  /** Writes a request with the ids and keys of now, and with a mark of its own. */
  toWire(request: FuzzRequest, mark: string): WireRequest;
  send(request: WireRequest): Promise<WireResponse>;
  /** Replaces objects that an accepted request may have deleted. */
  renew(): Promise<void>;
  /** Returns the secrets of the third tenant only. */
  victimSecrets: readonly string[];
  /** All API keys, which no response may contain. */
  keys: readonly string[];
  /** Keys and credentials that requests have, and those of the third tenant, which no log may contain. */
  unloggable: readonly string[];
  /** Reads all that the third tenant has. */
  readVictim(): Promise<Record<string, string>>;
  close(): void;
}

/** As long as a key, of the letters that a key has. */
const WRONG_KEY = 'f0'.repeat(32);

/** Creates the tenants and their objects. */
export async function createFuzzTarget(fixture: ProviderFixture): Promise<FuzzTarget> {
  const [caller, other, victim] = [
    await fixture.tenant(),
    await fixture.tenant(),
    await fixture.tenant(),
  ];
  const [own, theirs, victims] = [
    await createResources(caller),
    await createResources(other),
    await createResources(victim),
  ];
  const providers = {
    iphone: (await registerIphone(caller.dev)).token,
    android: (await registerAndroid(caller.dev)).token,
    browser: (await registerSimulatedBrowser(caller.dev, fixture.sandbox)).token,
  };
  const spare = (await registerDevice(caller.dev)).token;
  const values: Record<string, string> = {
    ...{ ...namesOf(own), ...providers, spare, app: caller.app },
    ...Object.fromEntries(
      Object.entries({ ...namesOf(victims), app: victim.app }).map(([name, value]) => [
        `victim.${name}`,
        value,
      ]),
    ),
  };
  const knownIds = new Set([own, theirs, victims].flatMap(listIds));
  for (const token of [spare, ...Object.values(providers)]) knownIds.add(token);
  const { api } = fixture.stack.dev;
  const agent = new Agent({ keepAlive: true });
  const { device, push, scheduled, webhook, mark } = victims;
  const keys = [caller, other, victim].map(({ apiKey }) => apiKey);
  return {
    api,
    apps: [caller.app, other.app],
    knownIds,
    victimSecrets: [device.token, device.auth, push, scheduled, webhook, mark],
    keys,
    unloggable: [...keys, WRONG_KEY, own.device.auth, device.auth],
    toWire(request, requestMark) {
      const wire = fillRequest(api, request, { ...values, mark: requestMark });
      const key = keyOf(request, caller, other);
      if (key === undefined) return wire;
      return {
        ...wire,
        target: `${wire.target}${wire.target.includes('?') ? '&' : '?'}api_key=${key}`,
      };
    },
    send: (request) => sendRequest(api, agent, request),
    async renew() {
      await renew(caller, values);
      for (const name of RENEWED) knownIds.add(values[name] ?? '');
    },
    readVictim: () => readEverything(victim, victims),
    close: () => agent.destroy(),
  };
}

function namesOf({ device, ...resources }: TenantResources): Record<string, string> {
  const { topic, push, scheduled, webhook } = resources;
  return { device: device.token, auth: device.auth, topic, push, scheduled, webhook };
}

function listIds({ device, push, scheduled, webhook }: TenantResources): string[] {
  return [device.token, push, scheduled, webhook];
}

function keyOf(
  { credential }: FuzzRequest,
  caller: TestTenant,
  other: TestTenant,
): string | undefined {
  if (credential === 'none') return undefined;
  if (credential === 'wrong') return WRONG_KEY;
  return credential === 'caller' ? caller.apiKey : other.apiKey;
}

/** Things of the caller that a request may delete. */
const RENEWED = ['device', 'spare', 'push', 'webhook'];

/** Finds which of the caller's own objects were removed, and creates them again. */
async function renew(caller: TestTenant, values: Record<string, string>): Promise<void> {
  const isGone = async (path: string) => (await caller.api('GET', path)).status !== 200;
  if (await isGone(`/devices/${values.device}`)) {
    const { token, auth } = await registerDevice(caller.dev);
    Object.assign(values, { device: token, auth });
  }
  if (await isGone(`/devices/${values.spare}`))
    values.spare = (await registerDevice(caller.dev)).token;
  await caller.api('POST', '/topics/subscribe', { token: values.device, topics: [values.topic] });
  if (await isGone(`/pushes/${values.push}`))
    values.push = (await send(caller, values.device ?? '')).id;
  const { json } = await caller.api<{ webhooks: { id: string }[] }>('GET', '/webhooks');
  if (!json.webhooks.some(({ id }) => id === values.webhook))
    values.webhook = json.webhooks[0]?.id ?? (await createWebhook(caller, 'renewed'));
}
