import type { TestTenant } from '../api/tenants.ts';
import { send } from '../end-to-end/pushes.ts';
import { createMqttDevice, type MqttDevice } from '../mqtt-device.ts';
import type { TestStore } from '../open-store.ts';
import { until } from '../until.ts';
import { type ProviderDevice, registerIphone } from './devices.ts';
import { untilFinal } from './outcomes.ts';

/** An iPhone with local push connectivity: APNs reaches it, and it holds an MQTT connection. */
export interface ConnectedIphone extends ProviderDevice {
  mqtt: MqttDevice;
}

/** Registers an iPhone and connects it; workers know by then that its app has such devices. */
export async function connectIphone(
  tenant: TestTenant,
  store: Pick<TestStore, 'deliveryStatus'>,
): Promise<ConnectedIphone> {
  const iphone = await registerIphone(tenant.dev);
  const { token, auth, address } = iphone;
  const mqtt = createMqttDevice({ url: tenant.dev.mqtt, token, auth });
  await mqtt.connect();
  const hasArrived = async () => {
    await untilFinal(store, await send(tenant, token), token);
    return mqtt.arrivals.length > 0;
  };
  await until(hasArrived, { timeoutMs: 15_000, everyMs: 250, what: 'a push over the connection' });
  mqtt.arrivals.length = 0;
  return { token, auth, address, mqtt };
}
