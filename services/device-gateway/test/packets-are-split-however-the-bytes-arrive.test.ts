import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { generate } from 'mqtt-packet';
import {
  encodeSuback,
  encodeUnsuback,
  MAX_PACKET_BYTES,
  ProtocolError,
  splitFrames,
} from '../src/frames.ts';
import { encodePublish, writePublish } from '../src/publish-packet.ts';

/** Packets as devices send them, encoded by mqtt-packet. */
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

/** Splits chunks the way a session does. */
function splitAll(chunks: Buffer[]): Buffer[] {
  const frames: Buffer[] = [];
  let rest = Buffer.alloc(0);
  for (const chunk of chunks) {
    rest = Buffer.from(
      splitFrames(Buffer.concat([rest, chunk]), (frame) => {
        frames.push(Buffer.from(frame));
        return true;
      }),
    );
  }
  return frames;
}

function splitAt(bytes: Buffer, at: number[]): Buffer[] {
  const ends = [...at.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

describe('the packet splitter', () => {
  test('finds the same packets however the bytes are split', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(PACKETS.length - 1), { maxLength: 20 }),
        fc.array(fc.nat(5_000)),
        (which, at) => {
          const packets = which.map((n) => PACKETS[n] ?? Buffer.alloc(0));
          expect(splitAll(splitAt(Buffer.concat(packets), at))).toEqual(packets);
        },
      ),
    );
  });

  test('rejects a packet whose length is above the limit before buffering it', () => {
    const announces256Megabytes = Buffer.from([0x30, 0xff, 0xff, 0xff, 0x7f]);
    expect(() => splitAll([announces256Megabytes])).toThrow(ProtocolError);
    expect(() => splitAll([Buffer.from([0x30, 0xff, 0xff])])).toThrow(ProtocolError);
    expect(() => splitAll([Buffer.from([0x30, 0x80, 0x80, 0x80, 0x80])])).toThrow(ProtocolError);
  });

  test('accepts a packet of exactly the maximum length', () => {
    const longest = Buffer.alloc(3 + MAX_PACKET_BYTES);
    longest.set([0x82, (MAX_PACKET_BYTES & 0x7f) | 0x80, MAX_PACKET_BYTES >> 7]);
    expect(splitAll(splitAt(longest, [100, 5_000]))).toEqual([longest]);
  });

  test('splits or throws a ProtocolError for any bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 300 })), (chunks) => {
        try {
          splitAll(chunks.map((chunk) => Buffer.from(chunk)));
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

describe('responses to subscriptions', () => {
  test('reject each filter', () => {
    expect([...encodeSuback(PACKETS[3] ?? Buffer.alloc(0), 'mine')]).toEqual([
      0x90, 4, 0, 7, 0x80, 0x80,
    ]);
    const unsubscribe = generate({ cmd: 'unsubscribe', messageId: 258, unsubscriptions: ['x'] });
    expect([...encodeUnsuback(unsubscribe)]).toEqual([0xb0, 2, 1, 2]);
  });

  test('to malformed packets are protocol errors', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (body) => {
        try {
          encodeSuback(Buffer.from([0x82, body.length, ...body]), 'mine');
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});

describe('a PUBLISH', () => {
  test('is encoded byte for byte like mqtt-packet does', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme', maxLength: 400 }),
        fc.integer({ min: 1, max: 65_535 }),
        fc.boolean(),
        (payload, messageId, dup) => {
          const topic = '0123456789abcdef01234567';
          const [actual] = captureWrites(true, (transport) =>
            writePublish(encodePublish(topic, payload), messageId, dup, transport),
          );
          const expected = generate({
            cmd: 'publish',
            topic,
            payload,
            qos: 1,
            dup,
            retain: false,
            messageId,
          });
          expect(actual?.equals(expected)).toBe(true);
        },
      ),
    );
  });

  test('is not changed while a socket buffers it', () => {
    const packet = encodePublish('topic', 'payload');
    const held = captureWrites(false, (transport) => {
      for (const id of [1, 2, 3]) writePublish(packet, id, false, transport);
    });
    expect(held.map((bytes) => bytes.readUInt16BE(packet.packetIdOffset))).toEqual([1, 2, 3]);
  });
});

/** Returns the buffers written to a transport; one that flushes immediately buffers nothing. */
function captureWrites(
  flushesImmediately: boolean,
  write: (transport: { write(bytes: Buffer): void; writableLength: number }) => void,
): Buffer[] {
  const chunks: Buffer[] = [];
  write({
    write(bytes) {
      chunks.push(bytes);
      if (!flushesImmediately) this.writableLength += bytes.length;
    },
    writableLength: 0,
  });
  return chunks;
}
