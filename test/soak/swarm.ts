import type { ProviderChannelName } from '../../packages/core/src/channels.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { registerAndroid } from '../support/providers/devices.ts';
import {
  registerAndroidsByFcm,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';
import type { Arrival, History } from './history.ts';
import { createRandom, type Random, TENANT_NAMES, type TenantName } from './plan.ts';
import { lastPart, MARK, openProviderLog } from './provider-log.ts';
import type { System } from './system.ts';

const STEP_MS = 200;
/** Chance in each step that a connected device breaks its connection, or keeps its receipts back for a while. */
const BREAKS = 0.004;
const HOLDS = 0.004;
const OFFLINE_STEPS = 25;
const HOLD_STEPS = 15;
/** Of so many devices one leaves at the end of a run. */
const LEAVES_EVERY = 10;
/** Return codes of a CONNACK after which an official client registers again (MQTT 3.1.1, 3.2.2.3). */
const REFUSALS: readonly number[] = [4, 5];

/** Devices of a tenant: with MQTT alone, and of each kind that has a provider. */
export interface SwarmSize {
  connected: number;
  ofProvider: number;
}
/** Kinds of devices with a provider: iPhones, browsers, and Android devices with and without MQTT. */
export const PROVIDER_KINDS = 4;

/** How a provider knows a device. */
interface DeviceAddress {
  channel: ProviderChannelName;
  address: string;
  /** The provider is the fallback: the device has MQTT. */
  hasMqtt?: true;
}

/** All devices of a run. */
export type Swarm = Awaited<ReturnType<typeof createSwarm>>;

/** Registered devices of a tenant. */
interface Devices {
  mqtt: MqttDevice[];
  tokens: string[];
  /** By device token. */
  addresses: Map<string, DeviceAddress>;
}

/** Registers devices of all channels; those with MQTT connect, stay silent, break and return as the seed says. */
export async function createSwarm(
  system: Pick<System, 'sandbox' | 'stack' | 'store'>,
  tenants: Record<TenantName, TestTenant>,
  sizes: Record<TenantName, SwarmSize>,
  seed: number,
) {
  const registered = {
    a: await registerDevices(system, tenants.a, sizes.a),
    b: await registerDevices(system, tenants.b, sizes.b),
  };
  const devices = TENANT_NAMES.flatMap((name) => registered[name].mqtt);
  const addresses = new Map(TENANT_NAMES.flatMap((name) => [...registered[name].addresses]));
  const tokenOf = new Map([...addresses].map(([token, { address }]) => [lastPart(address), token]));
  let isStopped = false;
  let isHealing = false;
  const left = new Set<MqttDevice>();
  const lags = createLagRecord();
  const refusedConnects: History['refusedConnects'][number][] = [];

  async function live(device: MqttDevice, random: Random): Promise<void> {
    let offline = 0;
    let holding = 0;
    while (!isStopped) {
      if (left.has(device)) {
        if (device.connected) await device.disconnect();
      } else if (offline > 0 && !isHealing) offline -= 1;
      else if (!device.connected) await connect(device, refusedConnects);
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
  const providers = openProviderLog(`${system.stack.dev.sandbox}`, tokenOf);

  return {
    /** Device tokens of each tenant in the order of their registration. */
    tokens: { a: registered.a.tokens, b: registered.b.tokens },
    /** Finds the address of a device at its provider, by its token; undefined if it has MQTT alone. */
    addressOf: (token: string) => addresses.get(token),
    /** Breaks the connections of all devices at once. */
    cutAll() {
      for (const device of devices) device.cut();
    },
    /** Lets all devices acknowledge, and connects them until they stay so. */
    async heal() {
      isHealing = true;
      const allConnected = () => devices.every((device) => device.connected);
      await until(allConnected, { timeoutMs: 60_000, everyMs: 200, what: 'all devices connected' });
    },
    /** Disconnects those of some devices that have MQTT, and does something. Then they connect again. */
    async whileAway(tokens: ReadonlySet<string>, task: () => Promise<void>) {
      const away = devices.filter(({ token }) => tokens.has(token));
      for (const device of away) left.add(device);
      try {
        await until(() => away.every((device) => !device.connected), { timeoutMs: 60_000 });
        await task();
      } finally {
        left.clear();
      }
    },
    /** Disconnects some devices for good. */
    async disconnectSome() {
      for (const [n, device] of devices.entries()) if (n % LEAVES_EVERY === 0) left.add(device);
      await until(() => [...left].every((device) => !device.connected), { timeoutMs: 60_000 });
    },
    /** Lists the devices of a tenant that have MQTT. */
    listConnections: (name: TenantName) =>
      registered[name].mqtt.map(({ token, connected }) => ({ token, isConnected: connected })),
    /** Lists all that devices and providers have seen, at the end of a run. */
    async listSeen() {
      await providers.stop();
      return {
        ...{ refusals: providers.refusals, refusedConnects, observerLags: lags.read() },
        arrivals: [...devices.flatMap(arrivalsOf), ...providers.accepted],
      };
    },
    async stop() {
      isStopped = true;
      await providers.stop().catch(() => undefined);
      await Promise.all(living);
      await Promise.all(devices.map((device) => device.disconnect()));
    },
  };
}

/** Connects a device. Records a refusal of its credentials. */
async function connect(
  device: MqttDevice,
  refused: History['refusedConnects'][number][],
): Promise<void> {
  await device.connect().catch(({ code }: { code?: unknown }) => {
    if (typeof code !== 'number' || !REFUSALS.includes(code)) return;
    refused.push({ token: device.token, atMs: Date.now(), code });
  });
}

async function registerDevices(
  system: Pick<System, 'sandbox' | 'store'>,
  tenant: TestTenant,
  { connected, ofProvider }: SwarmSize,
): Promise<Devices> {
  const { app, mqtt: url } = tenant.dev;
  await system.store.apps.updateSettings(app, { fcm: 1 });
  const mqtt: MqttDevice[] = [];
  const addresses: Devices['addresses'] = new Map();
  for (let n = 0; n < connected; n += 1) mqtt.push(await newMqttDevice(tenant.dev));
  // FCM is their second channel, and each of their pushes may come over both.
  for (let n = 0; n < ofProvider; n += 1) {
    const { address, ...credentials } = await registerAndroid(tenant.dev);
    mqtt.push(createMqttDevice({ url, ...credentials }));
    addresses.set(credentials.token, { channel: 'fcm', address, hasMqtt: true });
  }
  const pools = [
    { channel: 'apns', ...(await registerIphones(tenant, ofProvider)) },
    { channel: 'fcm', ...(await registerAndroidsByFcm(tenant, ofProvider)) },
    { channel: 'web-push', ...(await registerBrowsers(tenant, system.sandbox, ofProvider)) },
  ] as const;
  for (const { channel, ...pool } of pools)
    for (const [index, address] of pool.addresses.entries())
      addresses.set(pool.tokens[index] ?? '', { channel, address });
  const tokens = [...mqtt.map(({ token }) => token), ...pools.flatMap((pool) => pool.tokens)];
  return { mqtt, tokens, addresses };
}

function arrivalsOf({ token, arrivals }: MqttDevice): Arrival[] {
  return arrivals.map(({ payload, receivedAtMs, connection }) => ({
    ...{ token, channel: 'mqtt', connection, mark: MARK.exec(payload)?.[0] ?? payload },
    atMs: performance.timeOrigin + receivedAtMs,
  }));
}
