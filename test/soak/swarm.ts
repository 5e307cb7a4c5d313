import type { TestTenant } from '../support/api/tenants.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { registerAndroid } from '../support/providers/devices.ts';
import { registerBrowsers, registerIphones } from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';
import type { Arrival, History, RefusedConnect } from './history.ts';
import { createLagRecord } from './observer-lag.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import { followProviderLog, type ProviderRequest } from './provider-log.ts';
import { createRandom, type Random } from './random.ts';
import type { System } from './system.ts';

const STEP_MS = 200;
/** Chance in each step that a connected device breaks its connection, or keeps its receipts back for a while. */
const BREAKS = 0.004;
const HOLDS = 0.004;
const OFFLINE_STEPS = 25;
const HOLD_STEPS = 15;
/** Of so many devices one leaves at the end of a run. */
const LEAVES_EVERY = 10;
const MARK = /soak-[ab]-\d+-\d+/;
const ACCEPTED = [200, 201];
/** Return codes of a CONNACK after which an official client registers again (MQTT 3.1.1, 3.2.2.3). */
const REFUSALS: readonly number[] = [4, 5];

/** Devices of a tenant: with MQTT alone, and of each provider. */
export interface SwarmSize {
  connected: number;
  ofProvider: number;
}

/** All devices of a run. */
export interface Swarm {
  /** Device tokens of each tenant in the order of their registration. */
  tokens: Record<TenantName, readonly string[]>;
  /** Breaks the connections of all devices at once. */
  cutAll(): void;
  /** Lets all devices acknowledge, and connects them until they stay so. */
  heal(): Promise<void>;
  /** Disconnects some devices for good. */
  disconnectSome(): Promise<void>;
  /** Lists the devices of a tenant that have MQTT. */
  listConnections(tenant: TenantName): { token: string; isConnected: boolean }[];
  /** Lists what has come to devices, and what providers have accepted for them. */
  listArrivals(): Promise<Arrival[]>;
  /** Lists the connects that were refused because of the device's credentials, which are right. */
  refusedConnects(): RefusedConnect[];
  /** Returns by how much this process has noticed things late. */
  observerLags(): History['observerLags'];
  stop(): Promise<void>;
}

/** Registered devices of a tenant. */
interface Devices {
  mqtt: MqttDevice[];
  tokens: string[];
  /** Device tokens by what a provider knows the device by. */
  tokenOf: Map<string, string>;
}

/** Registers devices of all channels; those with MQTT connect, stay silent, break and return as the seed says. */
export async function createSwarm(
  system: Pick<System, 'sandbox' | 'stack' | 'store'>,
  tenants: Record<TenantName, TestTenant>,
  sizes: Record<TenantName, SwarmSize>,
  seed: number,
): Promise<Swarm> {
  const registered = {
    a: await registerDevices(system, tenants.a, sizes.a),
    b: await registerDevices(system, tenants.b, sizes.b),
  };
  const devices = TENANT_NAMES.flatMap((name) => registered[name].mqtt);
  const tokenOf = new Map(TENANT_NAMES.flatMap((name) => [...registered[name].tokenOf]));
  let isStopped = false;
  let isHealing = false;
  const left = new Set<MqttDevice>();
  const lags = createLagRecord();
  const refusedConnects: RefusedConnect[] = [];

  async function connect(device: MqttDevice): Promise<void> {
    await device.connect().catch(({ code }: { code?: unknown }) => {
      if (typeof code !== 'number' || !REFUSALS.includes(code)) return;
      refusedConnects.push({ token: device.token, atMs: Date.now(), code });
    });
  }

  async function live(device: MqttDevice, random: Random): Promise<void> {
    let offline = 0;
    let holding = 0;
    while (!isStopped) {
      if (left.has(device)) {
        if (device.connected) await device.disconnect();
      } else if (offline > 0 && !isHealing) offline -= 1;
      else if (!device.connected) await connect(device);
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
      await lags.measure(STEP_MS);
    }
  }
  // Each device has numbers of its own: how long others take to connect changes nothing for it.
  const living = devices.map((device, n) => live(device, createRandom(seed + n)));
  const accepted: Arrival[] = [];
  const stopFollowing = followProviderLog(`${system.stack.dev.sandbox}`, (request) => {
    accepted.push(...acceptedOf(request, tokenOf));
  });

  return {
    tokens: { a: registered.a.tokens, b: registered.b.tokens },
    cutAll() {
      for (const device of devices) device.cut();
    },
    async heal() {
      isHealing = true;
      const allConnected = () => devices.every((device) => device.connected);
      await until(allConnected, { timeoutMs: 60_000, everyMs: 200, what: 'all devices connected' });
    },
    async disconnectSome() {
      for (const [n, device] of devices.entries()) if (n % LEAVES_EVERY === 0) left.add(device);
      await until(() => [...left].every((device) => !device.connected));
    },
    listConnections: (name) =>
      registered[name].mqtt.map(({ token, connected }) => ({ token, isConnected: connected })),
    async listArrivals() {
      await stopFollowing();
      return [...devices.flatMap(arrivalsOf), ...accepted];
    },
    refusedConnects: () => [...refusedConnects],
    observerLags: lags.read,
    async stop() {
      isStopped = true;
      await stopFollowing().catch(() => undefined);
      await Promise.all(living);
      await Promise.all(devices.map((device) => device.disconnect()));
    },
  };
}

async function registerDevices(
  system: Pick<System, 'sandbox' | 'store'>,
  tenant: TestTenant,
  { connected, ofProvider }: SwarmSize,
): Promise<Devices> {
  const { app, mqtt: url } = tenant.dev;
  await system.store.apps.updateSettings(app, { fcmFallbackSeconds: 1 });
  const mqtt: MqttDevice[] = [];
  const tokenOf = new Map<string, string>();
  for (let n = 0; n < connected; n += 1) mqtt.push(await newMqttDevice(tenant.dev));
  // FCM is their second channel, and each of their pushes may come over both.
  for (let n = 0; n < ofProvider; n += 1) {
    const { address, ...credentials } = await registerAndroid(tenant.dev);
    mqtt.push(createMqttDevice({ url, ...credentials }));
    tokenOf.set(address, credentials.token);
  }
  const pools = [
    await registerIphones(tenant, ofProvider),
    await registerBrowsers(tenant, system.sandbox, ofProvider),
  ];
  for (const { tokens, addresses } of pools)
    for (const [index, address] of addresses.entries())
      tokenOf.set(lastPart(address), tokens[index] ?? '');
  const tokens = [...mqtt.map(({ token }) => token), ...pools.flatMap((pool) => pool.tokens)];
  return { mqtt, tokens, tokenOf };
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
