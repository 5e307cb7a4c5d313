import { connect, type IPublishPacket, type MqttClient } from 'mqtt';
import { type Credentials, registerDevice } from './register-device.ts';
import type { Dev } from './stack/dev-file.ts';
import { type PollOptions, until } from './until.ts';

/** One PUBLISH as it came. */
export interface Arrival {
  /** The payload's text, byte for byte. */
  payload: string;
  /** Local monotonic time, milliseconds (`performance.now()`). */
  receivedAtMs: number;
  topic: string;
  /** The DUP flag: sent before, perhaps on another connection. */
  dup: boolean;
  messageId: number;
  /** 1 for arrivals on the device's first connection, and so on. */
  connection: number;
}

export interface MqttDeviceOptions extends Credentials {
  /** `mqtt://`, `mqtts://` or `ws://`. */
  url: string;
  keepaliveSeconds?: number;
  /** PEM of the authority that an `mqtts://` server is checked against. */
  ca?: string;
}

/** A device at the wire: the real MQTT.js, addressed as the official SDKs do. */
export interface MqttDevice extends Credentials {
  /** Everything that arrived, over all connections, in the order of arrival. */
  readonly arrivals: Arrival[];
  readonly connected: boolean;
  /** Opens a connection. @throws when CONNECT is refused or cut; `code` is the return code. */
  connect(): Promise<void>;
  /** Ends the connection with DISCONNECT. Without a connection harmless. */
  disconnect(): Promise<void>;
  /** Destroys the socket without DISCONNECT. */
  cut(): void;
  /** From now on receipts (PUBACK) are delayed while pushes keep arriving. */
  holdReceipts(): void;
  /** Sends the delayed receipts of this connection, and later ones at once again. */
  releaseReceipts(): void;
  /** Sends only the oldest of the delayed receipts. */
  releaseOldestReceipt(): void;
  /** Waits for at least `count` arrivals. Returns all. */
  waitFor(count: number, pollOptions?: PollOptions): Promise<Arrival[]>;
}

/** Registers a new device of the stack's app. Returns it, not yet connected. */
export async function newMqttDevice(dev: Dev, platform?: string): Promise<MqttDevice> {
  return createMqttDevice({ url: dev.mqtt, ...(await registerDevice(dev, platform)) });
}

/** Makes a device for a registration that exists; does not connect. */
export function createMqttDevice(options: MqttDeviceOptions): MqttDevice {
  const { token, auth } = options;
  const arrivals: Arrival[] = [];
  let client: MqttClient | undefined;
  let connection = 0;
  let isHolding = false;
  let heldReceipts: number[] = [];

  const take = (topic: string, bytes: Buffer, packet: IPublishPacket, number: number) => {
    const { dup, messageId = 0 } = packet;
    const payload = bytes.toString();
    arrivals.push({
      payload,
      topic,
      dup,
      messageId,
      connection: number,
      receivedAtMs: performance.now(),
    });
  };
  return {
    token,
    auth,
    arrivals,
    get connected() {
      return client?.connected ?? false;
    },
    async connect() {
      await client?.endAsync(true);
      connection += 1;
      heldReceipts = [];
      const number = connection;
      client = await connectClient(options, (fresh) => {
        fresh.on('message', (topic, payload, packet) => take(topic, payload, packet, number));
        // An error keeps MQTT.js from sending the PUBACK and from nothing else. Its own hook for
        // this, customHandleAcks, would stop the reading of later packets too.
        fresh.handleMessage = ({ messageId = 0 }, done) => {
          if (!isHolding) return done();
          heldReceipts.push(messageId);
          done(new Error('receipt held back'));
        };
      });
    },
    async disconnect() {
      await client?.endAsync();
    },
    cut() {
      client?.stream.destroy();
    },
    holdReceipts() {
      isHolding = true;
    },
    releaseReceipts() {
      isHolding = false;
      for (const id of heldReceipts.splice(0)) client?.stream.write(encodePuback(id));
    },
    releaseOldestReceipt() {
      for (const id of heldReceipts.splice(0, 1)) client?.stream.write(encodePuback(id));
    },
    waitFor(count, pollOptions = {}) {
      const hasEnough = () => arrivals.length >= count && arrivals;
      return until(hasEnough, { what: `${count} arrivals at ${token}`, ...pollOptions });
    },
  };
}

/** `prepare` is called before the first packet can arrive. */
async function connectClient(
  { url, token, auth, keepaliveSeconds = 300, ca }: MqttDeviceOptions,
  prepare: (client: MqttClient) => void,
): Promise<MqttClient> {
  const client = connect(url, {
    ...{ clientId: token, username: token, password: auth, protocolVersion: 4, clean: true },
    ...{ keepalive: keepaliveSeconds, reconnectPeriod: 0, connectTimeout: 10_000 },
    ...(ca === undefined ? {} : { ca }),
  });
  prepare(client);
  // Stays for good: a broken connection is a test's subject, not a crash.
  client.on('error', () => undefined);
  await untilAccepted(client).catch(async (error: unknown) => {
    await client.endAsync(true);
    throw error;
  });
  return client;
}

function untilAccepted(client: MqttClient): Promise<void> {
  return new Promise((resolve, reject) => {
    client.once('connect', () => resolve());
    client.once('error', reject);
    client.once('close', () => reject(new Error('closed before CONNACK')));
  });
}

/** MQTT 3.1.1, 3.4: type 4, remaining length 2, packet identifier. */
function encodePuback(messageId: number): Buffer {
  return Buffer.from([0x40, 0x02, messageId >> 8, messageId & 0xff]);
}
