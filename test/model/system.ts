import { randomUUID } from 'node:crypto';
import { expect } from '@jest/globals';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import type { TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { countOutcomes, type Model, type ModelDevice, type ModelPush } from './model.ts';

const SETTLED_MS = 20_000;

/** The running stack as the commands see it, with the devices and topics of one run. */
export interface System {
  stack: Stack;
  mongo: TestMongo;
  devices: Map<string, MqttDevice>;
  /** Makes a topic's name this run's own. */
  topic(name: string): string;
}

/** A system without any device. */
export function createSystem(stack: Stack, mongo: TestMongo): System {
  const run = randomUUID();
  return { stack, mongo, devices: new Map(), topic: (name) => `${run}-${name}` };
}

/** Registers a device and returns its token. */
export async function registerIn({ stack, devices }: System): Promise<string> {
  const device = await newMqttDevice(stack.dev);
  devices.set(device.token, device);
  return device.token;
}

export function mqttDeviceOf({ devices }: System, { token }: ModelDevice): MqttDevice {
  const device = devices.get(token);
  if (device === undefined) throw new Error(`no device ${token} in this run`);
  return device;
}

/** Sends, and records the push in the model once the stack has processed it. */
export async function sendAndRecord(
  model: Model,
  system: System,
  recipients: readonly ModelDevice[],
  to: string | string[],
  fields: Record<string, unknown>,
): Promise<ModelPush> {
  const { id, payload, devices } = await sendPush(system.stack, to, fields);
  expect(devices).toBe(recipients.length);
  if (fields.schedule !== undefined) {
    const { json } = await system.stack.api('GET', `/pushes/${id}`);
    expect(json).toMatchObject({ code: 'PUSH_SCHEDULED' });
  }
  const collapseKey = fields.collapse_key as string | undefined;
  const push = model.accept({ id, payload, collapseKey }, recipients);
  await untilOutcomesMatch(system, push);
  return push;
}

/** Waits until the outcomes of a push are those of the model. */
export async function untilOutcomesMatch({ mongo }: System, push: ModelPush): Promise<void> {
  await untilOutcomes(mongo, push, countOutcomes(push), { timeoutMs: SETTLED_MS, everyMs: 20 });
}

/** Waits until a device has everything that it has in the model. */
export async function untilReceived(system: System, device: ModelDevice): Promise<void> {
  const { arrivals } = mqttDeviceOf(system, device);
  const hasAll = () => {
    const payloads = new Set(arrivals.map(({ payload }) => payload));
    return [...device.received].every(({ payload }) => payloads.has(payload));
  };
  await until(hasAll, { timeoutMs: SETTLED_MS, what: `what ${device.token} is to receive` });
}

/** Expects that everything the stack shows and the devices have agrees with the model. */
export async function expectMatch(model: Model, system: System): Promise<void> {
  for (const push of model.pushes) await untilOutcomesMatch(system, push);
  for (const push of model.pushes) await expectStatus(system, push);
  for (const device of model.devices) {
    await untilReceived(system, device);
    expectArrivals(system, device);
    await expectInfo(system, device);
  }
}

async function expectStatus({ stack }: System, push: ModelPush): Promise<void> {
  const { json } = await stack.api<{ push: { pending_devices: string[] } }>(
    'GET',
    `/pushes/${push.id}`,
  );
  if (push.isDeleted) {
    expect(json).toMatchObject({ code: 'INVALID_PUSH_ID' });
    return;
  }
  const pending = [...push.outcomes].filter(([, outcome]) => outcome === 'inbox');
  expect(json.push.pending_devices.sort()).toEqual(pending.map(([{ token }]) => token).sort());
}

function expectArrivals(system: System, device: ModelDevice): void {
  const payloads = mqttDeviceOf(system, device).arrivals.map(({ payload }) => payload);
  expect([...new Set(payloads)].sort()).toEqual(payloadsOf(device.received).sort());
  const repeated = payloads.filter((payload, index) => payloads.indexOf(payload) < index);
  const mayRepeat = payloadsOf(device.mayRepeat);
  expect(repeated.filter((payload) => !mayRepeat.includes(payload))).toEqual([]);
}

async function expectInfo({ stack, topic }: System, device: ModelDevice): Promise<void> {
  const { json } = await stack.api<{
    pending_notifications: { id: string }[];
    subscriptions: string[];
    presence: { online: boolean };
  }>('GET', `/devices/${device.token}`);
  expect(json.pending_notifications.map(({ id }) => id)).toEqual(
    device.pending.map(({ id }) => id),
  );
  expect(json.subscriptions.sort()).toEqual([...device.topics].map(topic).sort());
  expect(json.presence.online).toBe(device.isConnected);
}

function payloadsOf(pushes: ReadonlySet<ModelPush>): string[] {
  return [...pushes].map(({ payload }) => payload);
}
