import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { getDeviceInfo, send, untilPending } from '../support/end-to-end/pushes.ts';
import { sendRawRequest } from '../support/end-to-end/raw-request.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import { type Stack, startStack } from '../support/stack.ts';

const COUNTS = { apis: 2, deliveryWorkers: 2, schedulers: 2, deviceGateways: 2 };

let one: Stack;
let other: Stack;
const devices: MqttDevice[] = [];
beforeAll(async () => {
  one = await startStack(COUNTS);
  // The same ports at another address: that is what this variable is for.
  const env = { CARILLON_PORT_BASE: new URL(one.dev.api).port };
  other = await startStack({ host: '127.0.0.2', env });
});
afterAll(async () => {
  await Promise.all(devices.map((device) => device.disconnect()));
  await Promise.all([one?.stop(), other?.stop()]);
});

describe('two stacks', () => {
  test('have keys, apps and addresses of their own', () => {
    for (const fact of ['api', 'app', 'apiKey', 'mqtt', 'mongodb', 'redis'] as const) {
      expect(one.dev[fact]).not.toBe(other.dev[fact]);
    }
    expect(new URL(one.dev.api).port).toBe(new URL(other.dev.api).port);
  });

  test('share no data', async () => {
    const { token } = await newDevice(one);
    expect((await getDeviceInfo(one, token)).device.platform).toBe('electron');
    expect((await other.api('GET', `/devices/${token}`)).json.code).toBe('INVALID_DEVICE_TOKEN');
    const foreign = await callApi({ ...other.dev, apiKey: one.dev.apiKey }, 'GET', '/topics');
    expect(foreign.json.code).toBe('INVALID_API_KEY');
  });

  test('deliver at the same time, each its own', async () => {
    for (const stack of [one, other]) {
      const device = await newDevice(stack);
      await device.connect();
      const push = await send(stack, device.token);
      expect((await device.waitFor(1))[0]?.payload).toBe(push.payload);
      await untilPending(stack, push.id, []);
    }
  });
});

describe('several processes of a service', () => {
  test.each([0, 1])(
    'share their ports and work: while each number %i is frozen, the other serves',
    async (index) => {
      const device = await newDevice(one);
      await whileFrozen(one, [{ service: 'api', index }], async () => {
        const path = `/topics?api_key=${one.dev.apiKey}`;
        for (let n = 0; n < 5; n += 1) {
          const response = await sendRawRequest(one.dev.api, { method: 'GET', path });
          expect(response.status).toBe(200);
        }
      });
      const others = ['device-gateway', 'delivery-worker'];
      const frozen = others.map((service) => ({ service, index }));
      await whileFrozen(one, frozen, async () => {
        await device.connect();
        const sent = [await send(one, device.token), await send(one, device.token)];
        const arrivals = await device.waitFor(sent.length);
        const payloads = arrivals.map(({ payload }) => payload).toSorted();
        expect(payloads).toEqual(sent.map(({ payload }) => payload).toSorted());
      });
    },
  );
});

async function newDevice(stack: Stack): Promise<MqttDevice> {
  const device = await newMqttDevice(stack.dev);
  devices.push(device);
  return device;
}
