import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { send, untilPending } from '../support/end-to-end/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import { type Dev, readDev } from '../support/stack/dev-file.ts';
import { isAlive } from '../support/stack/processes.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway', 'redis', 'mongodb'];
/** The part of each service's command line that identifies it. */
const COMMANDS: Record<string, RegExp> = { redis: /redis|valkey/, mongodb: /mongod/ };

let stack: Stack;
let device: MqttDevice;
beforeAll(async () => {
  stack = await useKillableStack({ restartsApis: true });
  device = await newMqttDevice(stack.dev);
});
afterAll(async () => {
  await device?.disconnect();
  await stack?.stop();
});

test.each(SERVICES)(
  '%s is restarted after kill -9 and named in the output, and pushes are delivered',
  async (service) => {
    const before = stack.output().length;
    for (const pid of await Promise.all(killAll(service)))
      expect(readCommand(pid)).toMatch(COMMANDS[service] ?? `services/${service}/src/main.ts`);
    await until(isDevFileCorrect);
    const said = stack.output().slice(before);
    expect(said).toMatch(new RegExp(`${service} ended .*SIGKILL.*again`));
    await expectDelivery();
  },
);

test('all of them are restarted when they are killed together', async () => {
  await Promise.all(SERVICES.flatMap(killAll));
  await until(isDevFileCorrect);
  await expectDelivery();
});

test('a process that is killed again and again is still restarted', async () => {
  for (let n = 0; n < 2; n += 1) {
    await stack.waitForRestart('scheduler', stack.kill('scheduler', 'SIGKILL'));
  }
  await until(isDevFileCorrect);
});

/** Kills every process of a service: no other one serves the push that follows. Returns the pids of the new ones. */
function killAll(service: string): Promise<number>[] {
  return stack.dev.processes
    .filter((one) => one.service === service)
    .map(({ index }) =>
      stack.waitForRestart(service, stack.kill(service, 'SIGKILL', index), index),
    );
}

/** Checks whether dev.json names each service once, all of them alive, and everything but the pids as before. */
async function isDevFileCorrect(): Promise<boolean> {
  const dev = readDev(stack.home);
  if (dev === undefined) return false;
  const { processes } = dev;
  expect(describeDev(dev)).toEqual(describeDev(stack.dev));
  const ready = processes.map(async ({ ops }) => ops === undefined || (await isReady(ops)));
  return processes.every(({ pid }) => isAlive(pid)) && (await Promise.all(ready)).every(Boolean);
}

/** The app and its key are those of this file. */
function describeDev({ processes, app: _app, apiKey: _apiKey, ...rest }: Dev) {
  const processNames = processes.map(({ service, index, ops }) => `${service} ${index} ${ops}`);
  return { ...rest, processes: processNames.sort() };
}

async function isReady(ops: string): Promise<boolean> {
  return (await fetch(`${ops}/readyz`)).ok;
}

async function expectDelivery(): Promise<void> {
  const push = await until(() => send(stack, device.token));
  await until(async () => {
    if (!device.connected) await device.connect();
    return device.arrivals.some(({ payload }) => payload === push.payload);
  });
  await untilPending(stack, push.id, []);
}

function readCommand(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
}
