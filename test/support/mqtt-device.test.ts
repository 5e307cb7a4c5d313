import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { createMqttDevice, type MqttDevice } from './mqtt-device.ts';
import { until } from './until.ts';

const CONNACK = Buffer.from([0x20, 2, 0, 0]);
const PUBACK = 0x40;

let server: Server;
let device: MqttDevice;
let connection: Socket;
let connack = CONNACK;
let received = Buffer.alloc(0);

/** A server of bytes: acknowledges CONNECT, writes the bytes of a test, records what it receives. */
beforeEach(async () => {
  connack = CONNACK;
  received = Buffer.alloc(0);
  server = createServer((socket) => {
    connection = socket.on('error', () => undefined);
    socket.once('data', () => socket.write(connack));
    socket.on('data', (bytes) => {
      received = Buffer.concat([received, bytes]);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  device = createMqttDevice({ url: `mqtt://127.0.0.1:${port}`, token: 'a1b2', auth: 'secret' });
});

afterEach(async () => {
  await device.disconnect();
  server.close();
});

describe('a device at the wire', () => {
  test('authenticates as the SDKs do', async () => {
    await device.connect();
    expect(received.toString('latin1')).toMatch(/MQTT.*a1b2.*a1b2.*secret$/s);
  });

  test('collects payloads byte for byte and receipts them', async () => {
    await device.connect();
    publish(7, '{"big":12345678901234567890}');
    expect(await device.waitFor(1)).toMatchObject([
      { payload: '{"big":12345678901234567890}', messageId: 7, dup: false, connection: 1 },
    ]);
    await until(() => receipts().length === 1);
  });

  test('keeps reading while it delays receipts', async () => {
    device.holdReceipts();
    await device.connect();
    for (const id of [1, 2, 3]) publish(id, `{"n":${id}}`);
    await device.waitFor(3);
    expect(receipts()).toEqual([]);
    device.releaseReceipts();
    await until(() => receipts().length === 3);
    publish(4, '{}');
    await until(() => receipts().at(-1) === 4);
    expect(receipts()).toEqual([1, 2, 3, 4]);
  });

  test('is disconnected without DISCONNECT', async () => {
    await device.connect();
    const before = received.length;
    const closed = once(connection, 'close');
    device.cut();
    await closed;
    expect(received.length).toBe(before);
    expect(device.connected).toBe(false);
  });

  test('names the return code of a refusal', async () => {
    connack = Buffer.from([0x20, 2, 0, 3]);
    await expect(device.connect()).rejects.toMatchObject({ code: 3 });
  });
});

function publish(messageId: number, payload: string) {
  const head = [0x32, payload.length + 5, 0, 1, 0x70, messageId >> 8, messageId & 0xff];
  connection.write(Buffer.concat([Buffer.from(head), Buffer.from(payload)]));
}

/** Packet ids of the PUBACKs that followed CONNECT; the tests send nothing else. */
function receipts(): number[] {
  const rest = received.subarray(2 + (received[1] ?? 0));
  const ids: number[] = [];
  for (let at = 0; rest[at] === PUBACK; at += 4) ids.push(rest.readUInt16BE(at + 2));
  return ids;
}
