import { createDeviceAuth, parseDeviceAuthKeys } from '@carillon/core/device-auth';
import { generate, type Packet } from 'mqtt-packet';

/** Pseudorandom numbers that a seed determines. */
export interface Random {
  /** Returns an integer from 0 up to `n`, exclusive. */
  below(n: number): number;
  pick<T>(some: readonly T[]): T;
}

/** Creates the generator mulberry32 by Tommy Ettinger (public domain). */
export function createRandom(seed: number): Random {
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
export const AUTH_KEYS = parseDeviceAuthKeys(`1:${'ab'.repeat(32)}`);
export const AUTH = createDeviceAuth(AUTH_KEYS, TOKEN);
const MAX_PACKETS = 6;

/** Credentials of the device that sends a stream. */
export type StreamCredentials = Record<'token' | 'auth', string>;
const CREDENTIALS: StreamCredentials = { token: TOKEN, auth: AUTH };

/** Creates a stream of bytes as a device, a faulty device or an attacker might send it. */
export function createStream(random: Random, credentials = CREDENTIALS): Buffer {
  const packets = [firstPacket(random, credentials)];
  for (let n = random.below(MAX_PACKETS); n > 0; n -= 1) packets.push(nextPacket(random));
  let bytes: Buffer = Buffer.concat(packets);
  // A third of the streams is not mutated: valid packets must be accepted.
  for (let n = random.below(3); n > 0; n -= 1) bytes = mutate(random, bytes);
  return bytes;
}

/** Splits at random offsets, often within the first bytes. */
export function splitRandomly(random: Random, bytes: Buffer): Buffer[] {
  const ends = Array.from({ length: random.below(8) }, () =>
    random.below(random.pick([4, bytes.length + 1])),
  );
  const sorted = [...ends.sort((a, b) => a - b), bytes.length];
  return sorted.map((end, index) => bytes.subarray(sorted[index - 1] ?? 0, end));
}

function firstPacket(random: Random, { token, auth }: StreamCredentials): Buffer {
  if (random.below(20) === 0) return nextPacket(random);
  const will = { topic: 'x', payload: Buffer.from('y'), qos: 1, retain: false } as const;
  const isMqtt31 = random.below(10) === 0;
  return generate({
    cmd: 'connect',
    protocolId: isMqtt31 ? 'MQIsdp' : 'MQTT',
    protocolVersion: isMqtt31 ? 3 : random.below(30) === 0 ? 5 : 4,
    clean: random.below(2) === 0,
    clientId: random.below(30) === 0 ? 'somebody' : token,
    username: token,
    password: Buffer.from(auth),
    keepalive: random.pick([0, 5, 300, 65_535]),
    ...(random.below(10) === 0 && { will }),
  });
}

function nextPacket(random: Random): Buffer {
  if (random.below(12) === 0) return garbage(random);
  return generate(random.pick(PACKET_MAKERS)(random));
}

function garbage(random: Random): Buffer {
  return Buffer.from(Array.from({ length: random.below(12) }, () => random.below(256)));
}

const messageId = (random: Random) => 1 + random.below(65_535);
const topic = (random: Random) => random.pick([TOKEN, '#', 'a/b', 'ü', '\u{1f514}']);
const createSome = (random: Random, max: number, text: (random: Random) => string) =>
  Array.from({ length: 1 + random.below(max) }, () => text(random));

const puback = (random: Random): Packet => ({ cmd: 'puback', messageId: messageId(random) });
const pingreq = (): Packet => ({ cmd: 'pingreq' });
const subscribe = (random: Random, topics: readonly string[]): Packet => ({
  cmd: 'subscribe',
  messageId: messageId(random),
  subscriptions: topics.map((name) => ({ topic: name, qos: random.pick([0, 1, 2] as const) })),
});

/** Weighted by repetition: most are packets that devices send. */
const PACKET_MAKERS: readonly ((random: Random) => Packet)[] = [
  ...[puback, puback, pingreq, pingreq],
  (random) => subscribe(random, createSome(random, 3, topic)),
  (random) =>
    subscribe(
      random,
      createSome(random, 130, () => 'a'),
    ),
  (random) => ({
    cmd: 'unsubscribe',
    messageId: messageId(random),
    unsubscriptions: createSome(random, 3, topic),
  }),
  () => ({ cmd: 'disconnect' }),
  (random) => ({
    cmd: 'publish',
    topic: topic(random),
    payload: Buffer.alloc(random.pick([0, 10, 300])),
    qos: random.pick([0, 1, 2] as const),
    dup: false,
    retain: random.below(2) === 0,
    messageId: messageId(random),
  }),
  (random) => ({ cmd: random.pick(['pubrec', 'pubrel', 'pubcomp']), messageId: messageId(random) }),
  () => ({ cmd: 'connack', returnCode: 0, sessionPresent: false }),
  (random) => ({ cmd: 'suback', messageId: messageId(random), granted: [0] }),
  (random) => ({ cmd: 'unsuback', messageId: messageId(random), granted: [] }),
  () => ({ cmd: 'pingresp' }),
];

function mutate(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length || 1);
  const before = bytes.subarray(0, at);
  const after = bytes.subarray(at);
  switch (random.below(5)) {
    case 0:
      return Buffer.concat([before, Buffer.from([random.below(256)]), after.subarray(1)]);
    case 1:
      return Buffer.concat([before, after.subarray(1 + random.below(4))]);
    case 2:
      return Buffer.concat([before, garbage(random), after]);
    case 3:
      return before;
    default:
      return Buffer.concat([bytes, bytes.subarray(at, at + random.below(40))]);
  }
}
