import { type MqttDevice, newMqttDevice } from '../mqtt-device.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';

/** Devices of one test file, registered on demand and disconnected together. */
export interface Fleet {
  /** A new device, not connected. */
  offline(platform?: string): Promise<MqttDevice>;
  /** A new device, connected. */
  online(platform?: string): Promise<MqttDevice>;
  /** Several of one kind. */
  createMany(count: number, kind: 'offline' | 'online'): Promise<MqttDevice[]>;
  disconnectAll(): Promise<void>;
}

/** Makes devices for a stack's app. */
export function createFleet(dev: () => Dev): Fleet {
  const devices: MqttDevice[] = [];
  const offline = async (platform?: string) => {
    const device = await newMqttDevice(dev(), platform);
    devices.push(device);
    return device;
  };
  const online = async (platform?: string) => {
    const device = await offline(platform);
    await device.connect();
    return device;
  };
  return {
    offline,
    online,
    createMany: (count, kind) =>
      Promise.all(Array.from({ length: count }, () => (kind === 'online' ? online() : offline()))),
    async disconnectAll() {
      for (const device of devices) device.releaseReceipts();
      await Promise.all(devices.splice(0).map((device) => device.disconnect()));
    },
  };
}

/** The payloads that arrived at a device, in the order of arrival. */
export function payloadsOf({ arrivals }: MqttDevice): string[] {
  return arrivals.map(({ payload }) => payload);
}

/** The pushes that the API lists as undelivered to a device, in its order. */
export async function pendingPushesOf(stack: Pick<Stack, 'api'>, token: string) {
  const { json } = await stack.api<{ pending_notifications: { id: string; expiration: number }[] }>(
    'GET',
    `/devices/${token}`,
  );
  return json.pending_notifications;
}
