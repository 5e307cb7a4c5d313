import { generate, type Packet } from 'mqtt-packet';

/** Numbers that a seed determines. */
export interface Dice {
  /** A whole number below `n`. */
  below(n: number): number;
  pick<T>(some: readonly T[]): T;
}

/** mulberry32, by Tommy Ettinger (public domain): the same seed, the same numbers. */
export function rollDice(seed: number): Dice {
  let state = seed;
  function next(): number {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }
  const below = (n: number) => next() % n;
  return {
    below,
    pick<T>(some: readonly T[]): T {
      return some[below(some.length)] as T;
    },
  };
}

export const TOKEN = '0123456789abcdef012345';
export const AUTH = 'a'.repeat(64);
const MOST_PACKETS = 6;

/** A stream of bytes as a device, a broken one or an attacker might send it. */
export function makeStream(dice: Dice): Buffer {
  const packets = [firstPacket(dice)];
  for (let n = dice.below(MOST_PACKETS); n > 0; n -= 1) packets.push(laterPacket(dice));
  let bytes: Buffer = Buffer.concat(packets);
  // A third stays as it is: what is right must be taken.
  for (let n = dice.below(3); n > 0; n -= 1) bytes = mutate(dice, bytes);
  return bytes;
}

/** Cuts at random places, often right behind the first bytes. */
export function cutUp(dice: Dice, bytes: Buffer): Buffer[] {
  const ends = Array.from({ length: dice.below(8) }, () =>
    dice.below(dice.pick([4, bytes.length + 1])),
  );
  const sorted = [...ends.sort((a, b) => a - b), bytes.length];
  return sorted.map((end, index) => bytes.subarray(sorted[index - 1] ?? 0, end));
}

function firstPacket(dice: Dice): Buffer {
  if (dice.below(20) === 0) return laterPacket(dice);
  const will = { topic: 'x', payload: Buffer.from('y'), qos: 1, retain: false } as const;
  return generate({
    cmd: 'connect',
    protocolId: 'MQTT',
    protocolVersion: dice.below(30) === 0 ? 5 : 4,
    clean: dice.below(2) === 0,
    clientId: dice.below(30) === 0 ? 'somebody' : TOKEN,
    username: TOKEN,
    password: Buffer.from(AUTH),
    keepalive: dice.pick([0, 5, 300, 65_535]),
    ...(dice.below(30) === 0 && { will }),
  });
}

function laterPacket(dice: Dice): Buffer {
  if (dice.below(12) === 0) return garbage(dice);
  return generate(dice.pick(KINDS)(dice));
}

function garbage(dice: Dice): Buffer {
  return Buffer.from(Array.from({ length: dice.below(12) }, () => dice.below(256)));
}

const messageId = (dice: Dice) => 1 + dice.below(65_535);
const topic = (dice: Dice) => dice.pick([TOKEN, '#', 'a/b', 'ü', '\u{1f514}']);
const upTo = (dice: Dice, most: number, text: (dice: Dice) => string) =>
  Array.from({ length: 1 + dice.below(most) }, () => text(dice));

const subscriptionTo = (dice: Dice, name: string) => ({
  topic: name,
  qos: dice.pick([0, 1, 2] as const),
});

/** Weighted by repetition: what devices do send is most of it. */
const KINDS: readonly ((dice: Dice) => Packet)[] = [
  (dice) => ({ cmd: 'puback', messageId: messageId(dice) }),
  (dice) => ({ cmd: 'puback', messageId: messageId(dice) }),
  () => ({ cmd: 'pingreq' }),
  () => ({ cmd: 'pingreq' }),
  (dice) => ({
    cmd: 'subscribe',
    messageId: messageId(dice),
    subscriptions: upTo(dice, 3, topic).map((name) => subscriptionTo(dice, name)),
  }),
  (dice) => ({
    cmd: 'subscribe',
    messageId: messageId(dice),
    subscriptions: upTo(dice, 130, () => 'a').map((name) => subscriptionTo(dice, name)),
  }),
  (dice) => ({
    cmd: 'unsubscribe',
    messageId: messageId(dice),
    unsubscriptions: upTo(dice, 3, topic),
  }),
  () => ({ cmd: 'disconnect' }),
  (dice) => ({
    cmd: 'publish',
    topic: topic(dice),
    payload: Buffer.alloc(dice.pick([0, 10, 300])),
    qos: dice.pick([0, 1, 2] as const),
    dup: false,
    retain: dice.below(2) === 0,
    messageId: messageId(dice),
  }),
  (dice) => ({ cmd: dice.pick(['pubrec', 'pubrel', 'pubcomp']), messageId: messageId(dice) }),
  () => ({ cmd: 'connack', returnCode: 0, sessionPresent: false }),
  (dice) => ({ cmd: 'suback', messageId: messageId(dice), granted: [0] }),
  (dice) => ({ cmd: 'unsuback', messageId: messageId(dice), granted: [] }),
  () => ({ cmd: 'pingresp' }),
];

function mutate(dice: Dice, bytes: Buffer): Buffer {
  const at = dice.below(bytes.length || 1);
  const before = bytes.subarray(0, at);
  const behind = bytes.subarray(at);
  switch (dice.below(5)) {
    case 0:
      return Buffer.concat([before, Buffer.from([dice.below(256)]), behind.subarray(1)]);
    case 1:
      return Buffer.concat([before, behind.subarray(1 + dice.below(4))]);
    case 2:
      return Buffer.concat([before, garbage(dice), behind]);
    case 3:
      return before;
    default:
      return Buffer.concat([bytes, bytes.subarray(at, at + dice.below(40))]);
  }
}
