import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDeviceAuth, parseDeviceAuthKeys } from '../../../packages/core/src/device-auth.ts';
import { newDeviceToken } from '../../../packages/core/src/ids.ts';
import type { DeviceDocument } from '../../../packages/store/src/documents.ts';
import type { TestMongo } from '../mongo.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../mqtt-device.ts';
import type { Stack } from '../stack.ts';

const DOCUMENTS_PER_INSERT = 10_000;
const MAX_CONNECTING = 20;
const RECONNECT_DELAY_MS = 100;

/** Many devices of the stack's app; a few are real, the others only registered. */
export interface DevicePool {
  /** Of all devices; the real ones are spread among them by chance. */
  tokens: string[];
  /** The real ones. */
  devices: MqttDevice[];
}

/**
 * Registers devices in bulk, straight in the database: through the API so many would take minutes.
 *
 * @param real how many of them are real and get connected
 */
export async function createDevicePool(
  stack: Pick<Stack, 'home'> & { dev: Pick<Stack['dev'], 'app' | 'mqtt'> },
  mongo: Pick<TestMongo, 'db'>,
  { registered, real }: { registered: number; real: number },
): Promise<DevicePool> {
  const tokens = Array.from({ length: registered }, newDeviceToken);
  await insertDevices(stack, mongo, tokens);
  const authOf = createDeviceAuthFor(stack);
  const devices = tokens
    .slice(0, real)
    .map((token) => createMqttDevice({ url: stack.dev.mqtt, token, auth: authOf(token) }));
  await connectAll(devices);
  return { tokens, devices };
}

/** Registers devices with tokens of the test's choice, straight in the database. */
export async function insertDevices(
  stack: { dev: Pick<Stack['dev'], 'app'> },
  mongo: Pick<TestMongo, 'db'>,
  tokens: string[],
): Promise<void> {
  const now = new Date();
  const common = { app: stack.dev.app, platform: 'electron', registeredAt: now, lastActiveAt: now };
  const documents = tokens.map((_id): DeviceDocument => ({ _id, ...common }) as DeviceDocument);
  for (let from = 0; from < documents.length; from += DOCUMENTS_PER_INSERT) {
    const chunk = documents.slice(from, from + DOCUMENTS_PER_INSERT);
    await mongo.db.collection<DeviceDocument>('devices').insertMany(chunk, { ordered: false });
  }
}

function createDeviceAuthFor(stack: Pick<Stack, 'home'>): (token: string) => string {
  const secrets = JSON.parse(readFileSync(`${stack.home}/secrets.json`, 'utf8')) as {
    deviceAuthKeys: string;
  };
  const keys = parseDeviceAuthKeys(secrets.deviceAuthKeys);
  return (token) => createDeviceAuth(keys, token);
}

/** Connects devices, a few at a time. @throws when one is refused. */
async function connectAll(devices: readonly MqttDevice[]): Promise<void> {
  const remaining = [...devices];
  const connectNext = async () => {
    for (let device = remaining.pop(); device !== undefined; device = remaining.pop())
      await device.connect();
  };
  await Promise.all(Array.from({ length: MAX_CONNECTING }, connectNext));
}

/** A connected device that acknowledges nothing: it keeps the batch open that it is in. */
export async function connectUnacknowledging(stack: Pick<Stack, 'dev'>): Promise<MqttDevice> {
  const device = await newMqttDevice(stack.dev);
  device.holdReceipts();
  await device.connect();
  return device;
}

/** Reconnects devices whenever their connection breaks, as the SDKs do, until it is stopped. */
export function keepConnected(devices: readonly MqttDevice[]): { stop(): Promise<void> } {
  let isStopped = false;
  const reconnect = async (device: MqttDevice) => {
    while (!isStopped) {
      if (!device.connected) await device.connect().catch(() => undefined);
      await sleep(RECONNECT_DELAY_MS);
    }
  };
  const reconnecting = devices.map(reconnect);
  return {
    async stop() {
      isStopped = true;
      await Promise.all(reconnecting);
      await Promise.all(devices.map((device) => device.disconnect()));
    },
  };
}
