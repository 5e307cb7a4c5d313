import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCarillonJson } from '../support/carillon.ts';
import { createMqttDevice } from '../support/mqtt-device.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const DOCTOR_RUNS = 2;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack?.stop());

/** CONNECTs by their result, as the gateway counts them. */
async function readConnectCounts(): Promise<Record<string, number>> {
  const gateway = stack.dev.processes?.find(({ service }) => service === 'device-gateway');
  const text = await (await fetch(`${gateway?.ops}/metrics`)).text();
  const found = text.matchAll(/^carillon_gateway_connects_total{result="([\w-]+)"} (\d+)/gm);
  return Object.fromEntries([...found].map(([, result, count]) => [result, Number(count)]));
}

test('carillon doctor reports MQTT as healthy at each run, and counts as no failed login', async () => {
  for (let n = 0; n < DOCTOR_RUNS; n += 1) {
    const findings = await runCarillonJson<{ check: string; ok: boolean }[]>(stack.home, 'doctor');
    expect(findings).toContainEqual(expect.objectContaining({ check: 'mqtt', ok: true }));
  }
  await until(async () => (await readConnectCounts())['refused-1'] === DOCTOR_RUNS);
  expect(await readConnectCounts()).not.toHaveProperty('refused-4');
  const device = createMqttDevice({
    url: stack.dev.mqtt ?? '',
    ...(await registerDevice(stack.dev)),
  });
  await device.connect();
  await device.disconnect();
});
