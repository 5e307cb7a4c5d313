import { expect } from '@jest/globals';
import fc from 'fast-check';
import type { Audience, Model, ModelDevice } from './model.ts';
import { deviceIn, registerIn, type System, sendIn, untilAgreed, untilReceived } from './system.ts';

const DEVICES = 5;
/** A gateway ends a link whose receipts are missing for half a minute; a step takes some seconds at most. */
const HELD_STEPS = 4;
/** With more than half a window unacknowledged a gateway sends no more of an inbox. */
const HELD_PUSHES = 6;
const DUE_AFTER_SECONDS = 2;

/** One step of a run. */
export type Command = fc.AsyncCommand<Model, System>;

/** Gives a command a name for the report of a failure, and ends holds that last too long after it. */
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
        const isTooLong = device.heldSteps > HELD_STEPS || device.pending.length >= HELD_PUSHES;
        if (isTooLong) await release(model, system, device);
      }
    },
    toString: () => name,
  };
}

async function release(model: Model, system: System, device: ModelDevice): Promise<void> {
  const acknowledged = [...device.unacknowledged];
  model.release(device);
  deviceIn(system, device).releaseReceipts();
  for (const push of acknowledged) await untilAgreed(system, push);
}

const hasDevice = ({ devices }: Model): boolean => devices.length > 0;

function register(): Command {
  const hasRoom = ({ devices }: Model) => devices.length < DEVICES;
  return command('register', hasRoom, async (model, system) =>
    model.register(await registerIn(system)),
  );
}

function connect(place: number): Command {
  const isOffline = (model: Model) => hasDevice(model) && !model.at(place).isConnected;
  return command(`connect ${place}`, isOffline, async (model, system) => {
    const device = model.at(place);
    const owed = [...device.pending];
    await deviceIn(system, device).connect();
    model.connect(device);
    await untilReceived(system, device);
    for (const push of owed) await untilAgreed(system, push);
  });
}

function disconnect(place: number, isClean: boolean): Command {
  const isOnline = (model: Model) => hasDevice(model) && model.at(place).isConnected;
  return command(`disconnect ${place}`, isOnline, async (model, system) => {
    const device = model.at(place);
    if (!isClean) deviceIn(system, device).cut();
    await deviceIn(system, device).disconnect();
    model.disconnect(device);
  });
}

function hold(place: number): Command {
  const isAble = (model: Model) => hasDevice(model) && !model.at(place).isHolding;
  return command(`hold ${place}`, isAble, async (model, system) => {
    model.hold(model.at(place));
    deviceIn(system, model.at(place)).holdReceipts();
  });
}

function letGo(place: number): Command {
  const isHolding = (model: Model) => hasDevice(model) && model.at(place).isHolding;
  return command(`release ${place}`, isHolding, (model, system) =>
    release(model, system, model.at(place)),
  );
}

function changeSubscription(place: number, topic: string, isJoining: boolean): Command {
  const path = isJoining ? '/topics/subscribe' : '/topics/unsubscribe';
  return command(`${path} ${place} ${topic}`, hasDevice, async (model, system) => {
    const { token, topics } = model.at(place);
    const body = { token, topics: [system.topic(topic)] };
    expect((await system.stack.api('POST', path, body)).json).toEqual({ success: true });
    if (isJoining) topics.add(topic);
    else topics.delete(topic);
  });
}

function push(audience: Audience, collapseKey?: string): Command {
  const name = `push ${JSON.stringify({ ...audience, collapseKey })}`;
  const fields = collapseKey === undefined ? {} : { collapse_key: collapseKey };
  return command(name, hasRecipients(audience), async (model, system) => {
    const recipients = model.recipients(audience);
    if (collapseKey !== undefined) await releaseAll(model, system, recipients);
    await sendIn(model, system, recipients, addressOf(system, audience, recipients), fields);
  });
}

/** Which of two fates a push has whose receipt comes after a newer push of its key is a matter of time. */
async function releaseAll(
  model: Model,
  system: System,
  devices: readonly ModelDevice[],
): Promise<void> {
  for (const device of devices.filter(({ isHolding }) => isHolding)) {
    await release(model, system, device);
  }
}

function schedule(audience: Audience): Command {
  const name = `schedule ${JSON.stringify(audience)}`;
  return command(name, hasRecipients(audience), async (model, system) => {
    const recipients = model.recipients(audience);
    const fields = { schedule: Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS };
    await sendIn(model, system, recipients, addressOf(system, audience, recipients), fields);
  });
}

function remove(which: number): Command {
  const candidates = ({ pushes }: Model) => pushes.filter(({ isDeleted }) => !isDeleted);
  const name = `delete ${which}`;
  return command(
    name,
    (model) => candidates(model).length > 0,
    async (model, system) => {
      const list = candidates(model);
      const one = list[which % list.length];
      if (one === undefined) return;
      const { json } = await system.stack.api('DELETE', `/pushes/${one.id}`);
      expect(json).toEqual({ success: true });
      model.delete(one);
      await untilAgreed(system, one);
    },
  );
}

function hasRecipients(audience: Audience): (model: Model) => boolean {
  return (model) => hasDevice(model) && model.recipients(audience).length > 0;
}

function addressOf(
  { topic }: System,
  audience: Audience,
  recipients: readonly ModelDevice[],
): string | string[] {
  if ('topic' in audience) return `/topics/${topic(audience.topic)}`;
  return recipients.map(({ token }) => token);
}

const place = fc.nat(DEVICES - 1);
const topic = fc.constantFrom('news', 'sport');
const collapseKey = fc.constantFrom(undefined, undefined, 'a', 'b');
const audience: fc.Arbitrary<Audience> = fc.oneof(
  fc.record({ places: fc.uniqueArray(place, { minLength: 1, maxLength: 3 }) }),
  fc.record({ topic }),
);

const commandArbitrary = fc.oneof(
  { weight: 3, arbitrary: fc.constant(null).map(register) },
  { weight: 6, arbitrary: place.map(connect) },
  { weight: 4, arbitrary: fc.tuple(place, fc.boolean()).map((some) => disconnect(...some)) },
  { weight: 2, arbitrary: place.map(hold) },
  { weight: 2, arbitrary: place.map(letGo) },
  {
    weight: 5,
    arbitrary: fc.tuple(place, topic, fc.boolean()).map((some) => changeSubscription(...some)),
  },
  { weight: 12, arbitrary: fc.tuple(audience, collapseKey).map((some) => push(...some)) },
  { weight: 1, arbitrary: audience.map(schedule) },
  { weight: 2, arbitrary: fc.nat(50).map(remove) },
);

/** Runs of commands; those that don't fit the moment are left out when it comes. */
export function commandsArbitrary(minLength: number): fc.Arbitrary<Command[]> {
  const beginning = [register(), register(), connect(0)];
  return fc
    .array(commandArbitrary, { minLength, maxLength: minLength * 2, size: 'max' })
    .map((commands) => [...beginning, ...commands]);
}
