import type { TestTenant } from '../api/tenants.ts';
import { createMqttDevice, type MqttDevice } from '../mqtt-device.ts';
import type { Credentials } from '../register-device.ts';

/** Fields by which an iPhone with a development build registers its APNs token. */
export const APPLE_BUILD = {
  pushEnvironment: 'development',
  pushBundle: 'com.example.carillon',
} as const;

/**
 * Creates the requests and connections of a tenant's devices.
 *
 * @param getTenant called for each of them: a test may make a tenant of its own
 */
export function createDeviceCalls(getTenant: () => TestTenant) {
  const connected: MqttDevice[] = [];

  /** @throws when the request is refused */
  async function post<T>(path: string, body: object): Promise<T> {
    const { status, json, text } = await getTenant().api<T>('POST', path, body);
    if (status !== 200) throw new Error(`${path}: ${text}`);
    return json;
  }

  return {
    post,
    register: (fields: object) =>
      post<Credentials>('/register', { appId: getTenant().app, sdk: 1, ...fields }),
    setToken: (device: Credentials, fields: object) =>
      post('/devices/token', { ...device, ...fields }),
    /** Connects with the credentials of a device. @throws when CONNECT is refused */
    async connect(credentials: Credentials): Promise<MqttDevice> {
      // With each PINGREQ the gateway checks that the device is there.
      const options = { url: getTenant().dev.mqtt, keepaliveSeconds: 5 };
      const device = createMqttDevice({ ...credentials, ...options });
      connected.push(device);
      await device.connect();
      return device;
    },
    disconnectAll: () => Promise.all(connected.map((device) => device.disconnect())),
  };
}
