import { expect } from '@jest/globals';
import fc from 'fast-check';
import type { Audience, Model, ModelDevice } from './model.ts';
import {
  mqttDeviceOf,
  registerIn,
  type System,
  sendAndRecord,
  untilOutcomesMatch,
  untilReceived,
} from './system.ts';

const DEVICES = 5;
/** A gateway closes a connection without receipts for half a minute; a step takes some seconds at most. */
const MAX_HELD_STEPS = 4;
/** With more than half a window unacknowledged a gateway sends no more of an inbox. */
const MAX_HELD_PUSHES = 6;
const DUE_AFTER_SECONDS = 2;

/** One step of a run. */
export type Command = fc.AsyncCommand<Model, System>;

/** Names a command for the report of a failure, and ends delays of receipts that last too long after it. */
function command(
  name: string,
  check: (model: Model) => boolean,
  run: (model: Model, system: System) => Promise<void>,
): Command {
  return {
    check,
    async run(model, system) {
      await run(model, system);
      for (const device of model.devices.filter(({ isHolding }) => isHolding)) {
        device.heldSteps += 1;
        const isTooLong =
          device.heldSteps > MAX_HELD_STEPS || device.pending.length >= MAX_HELD_PUSHES;
        if (isTooLong) await release(model, system, device);
      }
    },
    toString: () => name,
  };
}

async function release(model: Model, system: System, device: ModelDevice): Promise<void> {
  const acknowledged = [...device.unacknowledged];
  model.release(device);
  mqttDeviceOf(system, device).releaseReceipts();
  for (const push of acknowledged) await untilOutcomesMatch(system, push);
}

const hasDevice = ({ devices }: Model): boolean => devices.length > 0;

function register(): Command {
  const hasRoom = ({ devices }: Model) => devices.length < DEVICES;
  return command('register', hasRoom, async (model, system) =>
    model.register(await registerIn(system)),
  );
}

function connect(deviceIndex: number): Command {
  const isOffline = (model: Model) => hasDevice(model) && !model.deviceAt(deviceIndex).isConnected;
  return command(`connect ${deviceIndex}`, isOffline, async (model, system) => {
    const device = model.deviceAt(deviceIndex);
    const pendingPushes = [...device.pending];
    await mqttDeviceOf(system, device).connect();
    model.connect(device);
    await untilReceived(system, device);
    for (const push of pendingPushes) await untilOutcomesMatch(system, push);
  });
}

function disconnect(deviceIndex: number, isClean: boolean): Command {
  const isOnline = (model: Model) => hasDevice(model) && model.deviceAt(deviceIndex).isConnected;
  return command(`disconnect ${deviceIndex}`, isOnline, async (model, system) => {
    const device = model.deviceAt(deviceIndex);
    if (!isClean) mqttDeviceOf(system, device).cut();
    await mqttDeviceOf(system, device).disconnect();
    model.disconnect(device);
  });
}

function hold(deviceIndex: number): Command {
  const isAble = (model: Model) => hasDevice(model) && !model.deviceAt(deviceIndex).isHolding;
  return command(`hold ${deviceIndex}`, isAble, async (model, system) => {
    model.hold(model.deviceAt(deviceIndex));
    mqttDeviceOf(system, model.deviceAt(deviceIndex)).holdReceipts();
  });
}

function releaseHeldReceipts(deviceIndex: number): Command {
  const isHolding = (model: Model) => hasDevice(model) && model.deviceAt(deviceIndex).isHolding;
  return command(`release ${deviceIndex}`, isHolding, (model, system) =>
    release(model, system, model.deviceAt(deviceIndex)),
  );
}

function changeSubscription(deviceIndex: number, topic: string, isJoining: boolean): Command {
  const path = isJoining ? '/topics/subscribe' : '/topics/unsubscribe';
  return command(`${path} ${deviceIndex} ${topic}`, hasDevice, async (model, system) => {
    const { token, topics } = model.deviceAt(deviceIndex);
    const body = { token, topics: [system.topic(topic)] };
    expect((await system.stack.api('POST', path, body)).json).toEqual({ success: true });
    if (isJoining) topics.add(topic);
    else topics.delete(topic);
  });
}

function push(audience: Audience, { collapseKey, isScheduled = false }: PushOptions): Command {
  const name = `${isScheduled ? 'schedule' : 'push'} ${JSON.stringify({ ...audience, collapseKey })}`;
  const hasRecipients = (model: Model) => hasDevice(model) && model.recipients(audience).length > 0;
  return command(name, hasRecipients, async (model, system) => {
    const recipients = model.recipients(audience);
    // Which of two outcomes a push has whose receipt comes after a newer push of its key depends on timing.
    if (collapseKey !== undefined)
      for (const device of recipients.filter(({ isHolding }) => isHolding))
        await release(model, system, device);
    const tokens = recipients.map(({ token }) => token);
    const to = 'topic' in audience ? `/topics/${system.topic(audience.topic)}` : tokens;
    await sendAndRecord(model, system, recipients, to, {
      ...(collapseKey !== undefined && { collapse_key: collapseKey }),
      ...(isScheduled && { schedule: Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS }),
    });
  });
}

interface PushOptions {
  collapseKey?: string | undefined;
  isScheduled?: boolean;
}

function remove(pushIndex: number): Command {
  const candidates = ({ pushes }: Model) => pushes.filter(({ isDeleted }) => !isDeleted);
  const name = `delete ${pushIndex}`;
  return command(
    name,
    (model) => candidates(model).length > 0,
    async (model, system) => {
      const list = candidates(model);
      const one = list[pushIndex % list.length];
      if (one === undefined) return;
      const { json } = await system.stack.api('DELETE', `/pushes/${one.id}`);
      expect(json).toEqual({ success: true });
      model.delete(one);
      await untilOutcomesMatch(system, one);
    },
  );
}

const deviceIndex = fc.nat(DEVICES - 1);
const topic = fc.constantFrom('news', 'sport');
const collapseKey = fc.constantFrom(undefined, undefined, 'a', 'b');
const audience: fc.Arbitrary<Audience> = fc.oneof(
  fc.record({ deviceIndexes: fc.uniqueArray(deviceIndex, { minLength: 1, maxLength: 3 }) }),
  fc.record({ topic }),
);

const commandArbitrary = fc.oneof(
  { weight: 3, arbitrary: fc.constant(null).map(register) },
  { weight: 6, arbitrary: deviceIndex.map(connect) },
  { weight: 4, arbitrary: fc.tuple(deviceIndex, fc.boolean()).map((some) => disconnect(...some)) },
  { weight: 2, arbitrary: deviceIndex.map(hold) },
  { weight: 2, arbitrary: deviceIndex.map(releaseHeldReceipts) },
  {
    weight: 5,
    arbitrary: fc
      .tuple(deviceIndex, topic, fc.boolean())
      .map((some) => changeSubscription(...some)),
  },
  {
    weight: 12,
    arbitrary: fc.tuple(audience, collapseKey).map(([to, key]) => push(to, { collapseKey: key })),
  },
  { weight: 1, arbitrary: audience.map((to) => push(to, { isScheduled: true })) },
  { weight: 2, arbitrary: fc.nat(50).map(remove) },
);

/** Runs of commands; those that don't fit the moment are left out when it comes. */
export function commandsArbitrary(minLength: number): fc.Arbitrary<Command[]> {
  const beginning = [register(), register(), connect(0)];
  return fc
    .array(commandArbitrary, { minLength, maxLength: minLength * 2, size: 'max' })
    .map((commands) => [...beginning, ...commands]);
}
