import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { generate } from 'mqtt-packet';
import { MAX_PACKET_BYTES, ProtocolError, suback, takeFrames, unsuback } from '../src/frames.ts';
import { encodePublish, writePublish } from '../src/publish-packet.ts';

/** Packets as a device sends them, encoded by the library that devices use. */
const PACKETS = [
  generate({
    cmd: 'connect',
    clientId: 'a',
    username: 'a',
    password: Buffer.alloc(200),
    clean: true,
    keepalive: 300,
  }),
  generate({ cmd: 'puback', messageId: 513 }),
  generate({ cmd: 'pingreq' }),
  generate({
    cmd: 'subscribe',
    messageId: 7,
    subscriptions: [
      { topic: 'x/y', qos: 1 },
      { topic: '#', qos: 0 },
    ],
  }),
  generate({ cmd: 'disconnect' }),
];

/** Reads pieces the way a link does. */
function readAll(pieces: Buffer[]): Buffer[] {
  const frames: Buffer[] = [];
  let rest = Buffer.alloc(0);
  for (const piece of pieces) {
    rest = Buffer.from(
      takeFrames(Buffer.concat([rest, piece]), (frame) => {
        frames.push(Buffer.from(frame));
        return true;
      }),
    );
  }
  return frames;
}

function cut(bytes: Buffer, at: number[]): Buffer[] {
  const ends = [...at.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

describe('the packet reader', () => {
  test('finds the same packets however the bytes are cut', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(PACKETS.length - 1), { maxLength: 20 }),
        fc.array(fc.nat(5_000)),
        (which, at) => {
          const packets = which.map((n) => PACKETS[n] ?? Buffer.alloc(0));
          expect(readAll(cut(Buffer.concat(packets), at))).toEqual(packets);
        },
      ),
    );
  });

  test('refuses a packet that says it is too long before gathering any of it', () => {
    const announces256Megabytes = Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f]);
    expect(() => readAll([announces256Megabytes])).toThrow(ProtocolError);
    expect(() => readAll([Buffer.from([0x30, 0xff, 0xff])])).toThrow(ProtocolError);
    expect(() => readAll([Buffer.from([0x30, 0x80, 0x80, 0x80, 0x80])])).toThrow(ProtocolError);
  });

  test('takes a packet of exactly the greatest length', () => {
    const longest = Buffer.alloc(3 + MAX_PACKET_BYTES);
    longest.set([0x82, (MAX_PACKET_BYTES & 0x7f) | 0x80, MAX_PACKET_BYTES >> 7]);
    expect(readAll(cut(longest, [100, 5_000]))).toEqual([longest]);
  });

  test('never does anything but cut or refuse, whatever comes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (pieces) => {
        try {
          readAll(pieces.map((piece) => Buffer.from(piece)));
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

describe('answers to subscriptions', () => {
  test('refuse each filter', () => {
    expect([...suback(PACKETS[3] ?? Buffer.alloc(0), 'mine')]).toEqual([0x90, 4, 0, 7, 0x80, 0x80]);
    const unsubscribe = generate({ cmd: 'unsubscribe', messageId: 258, unsubscriptions: ['x'] });
    expect([...unsuback(unsubscribe)]).toEqual([0xb0, 2, 1, 2]);
  });

  test('to malformed ones are refusals of the link', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (body) => {
        try {
          suback(Buffer.from([0x82, body.length, ...body]), 'mine');
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

describe('a PUBLISH', () => {
  test('is byte for byte what the library writes', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 400 }),
        fc.integer({ min: 1, max: 65_535 }),
        fc.boolean(),
        (payload, messageId, dup) => {
          const topic = '0123456789abcdef01234567';
          const [ours] = written(true, (wire) =>
            writePublish(encodePublish(topic, payload), messageId, dup, wire),
          );
          const theirs = generate({
            cmd: 'publish',
            topic,
            payload,
            qos: 1,
            dup,
            retain: false,
            messageId,
          });
          expect(ours?.equals(theirs)).toBe(true);
        },
      ),
    );
  });

  test('stays as it was written for a socket that still holds it', () => {
    const packet = encodePublish('topic', 'payload');
    const held = written(false, (wire) => {
      for (const id of [1, 2, 3]) writePublish(packet, id, false, wire);
    });
    expect(held.map((bytes) => bytes.readUInt16BE(packet.idAt))).toEqual([1, 2, 3]);
  });
});

/** What is written to a wire; one that takes at once is done with the bytes when `write` returns. */
function written(
  takesAtOnce: boolean,
  write: (wire: { write(bytes: Buffer): void; writableLength: number }) => void,
): Buffer[] {
  const pieces: Buffer[] = [];
  write({
    write(bytes) {
      pieces.push(bytes);
      if (!takesAtOnce) this.writableLength += bytes.length;
    },
    writableLength: 0,
  });
  return pieces;
}
