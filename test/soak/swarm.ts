import { setTimeout as sleep } from 'node:timers/promises';
import type { TestTenant } from '../support/api/tenants.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { registerAndroid } from '../support/providers/devices.ts';
import { registerBrowsers, registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';
import type { Arrival } from './history.ts';
import { followProviderLog, type ProviderRequest } from './provider-log.ts';
import type { Random } from './random.ts';
import type { System } from './system.ts';

const STEP_MS = 200;
/** Chance in each step that a connected device breaks its connection, or keeps its receipts back for a while. */
const BREAKS = 0.004;
const HOLDS = 0.004;
const OFFLINE_STEPS = 25;
const HOLD_STEPS = 15;
const MARK = /soak-\d+-\d+/;
const ACCEPTED = [200, 201];

/** All devices of a run. */
export interface Swarm {
  tokens: readonly string[];
  /** Breaks the connections of all devices at once. */
  cutAll(): void;
  /** Lets all devices acknowledge, and connects them until they stay so. */
  heal(): Promise<void>;
  /** Lists what has come to devices, and what providers have accepted for them. */
  listArrivals(): Promise<Arrival[]>;
  /** Greatest delay with which this process has noticed something, in milliseconds. */
  lagMs(): number;
  stop(): Promise<void>;
}

/** Registers devices of all channels; those with MQTT connect, stay silent, break and return as the seed says. */
export async function createSwarm(
  system: Pick<System, 'sandbox' | 'stack' | 'store'>,
  tenant: TestTenant,
  random: Random,
  { connected, ofProvider }: { connected: number; ofProvider: number },
): Promise<Swarm> {
  const { app, mqtt: url } = tenant.dev;
  await system.store.apps.updateSettings(app, { fcmFallbackSeconds: 1 });
  const devices: MqttDevice[] = [];
  /** Device tokens by what a provider knows the device by. */
  const tokenOf = new Map<string, string>();
  for (let n = 0; n < connected; n += 1) devices.push(await newMqttDevice(tenant.dev));
  // FCM is their second channel, and each of their pushes may come over both.
  for (let n = 0; n < ofProvider; n += 1) {
    const { address, ...credentials } = await registerAndroid(tenant.dev);
    devices.push(createMqttDevice({ url, ...credentials }));
    tokenOf.set(address, credentials.token);
  }
  const pools = [
    await registerIphones(tenant, ofProvider),
    await registerBrowsers(tenant, system.sandbox, ofProvider),
  ];
  for (const { tokens, addresses } of pools)
    for (const [index, address] of addresses.entries())
      tokenOf.set(lastPart(address), tokens[index] ?? '');
  let isStopped = false;
  let isHealing = false;
  let lagMs = 0;

  async function live(device: MqttDevice): Promise<void> {
    let offline = 0;
    let holding = 0;
    while (!isStopped) {
      if (offline > 0 && !isHealing) offline -= 1;
      else if (!device.connected) await device.connect().catch(() => undefined);
      else if (!isHealing && random.next() < BREAKS) {
        offline = random.between(0, OFFLINE_STEPS);
        device.cut();
      } else if (!isHealing && holding === 0 && random.next() < HOLDS) {
        holding = random.between(1, HOLD_STEPS);
        device.holdReceipts();
      } else if (holding > 0) {
        holding = isHealing ? 0 : holding - 1;
        if (holding === 0) device.releaseReceipts();
      }
      const startedAt = performance.now();
      await sleep(STEP_MS);
      lagMs = Math.max(lagMs, performance.now() - startedAt - STEP_MS);
    }
  }
  const living = devices.map(live);
  const accepted: Arrival[] = [];
  const stopFollowing = followProviderLog(`${system.stack.dev.sandbox}`, (request) => {
    accepted.push(...acceptedOf(request, tokenOf));
  });

  return {
    tokens: [...devices.map(({ token }) => token), ...pools.flatMap(({ tokens }) => tokens)],
    cutAll() {
      for (const device of devices) device.cut();
    },
    async heal() {
      isHealing = true;
      const allConnected = () => devices.every((device) => device.connected);
      await until(allConnected, { timeoutMs: 60_000, everyMs: 200, what: 'all devices connected' });
    },
    async listArrivals() {
      await stopFollowing();
      return [...devices.flatMap(arrivalsOf), ...accepted];
    },
    lagMs: () => lagMs,
    async stop() {
      isStopped = true;
      await stopFollowing().catch(() => undefined);
      await Promise.all(living);
      await Promise.all(devices.map((device) => device.disconnect()));
    },
  };
}

function arrivalsOf({ token, arrivals }: MqttDevice): Arrival[] {
  return arrivals.map(({ payload, receivedAtMs, connection }) => ({
    ...{ token, channel: 'mqtt', connection, mark: MARK.exec(payload)?.[0] ?? payload },
    atMs: performance.timeOrigin + receivedAtMs,
  }));
}

function acceptedOf(
  { channel, at, to, status, payload }: ProviderRequest,
  tokenOf: ReadonlyMap<string, string>,
): Arrival[] {
  if (!ACCEPTED.includes(status ?? 0)) return [];
  const mark = MARK.exec(JSON.stringify(payload))?.[0] ?? 'no mark';
  return [{ token: tokenOf.get(lastPart(to)) ?? to, mark, atMs: at, channel, connection: 0 }];
}

/** Returns the part of an endpoint that tells subscriptions apart. */
function lastPart(address: string): string {
  return address.split('/').at(-1) ?? '';
}
