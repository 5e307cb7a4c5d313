import { generate } from 'mqtt-packet';

/** Every packet type of MQTT 3.1.1 and the two forbidden ones, each in its smallest form. */
export const PACKET_TYPES: readonly { name: string; bytes: Buffer }[] = [
  { name: 'reserved 0', bytes: Buffer.from([0x00, 0]) },
  { name: 'connect', bytes: generate({ cmd: 'connect', clientId: 'x', protocolVersion: 5 }) },
  { name: 'connack', bytes: generate({ cmd: 'connack', returnCode: 0, sessionPresent: false }) },
  ...([0, 1, 2] as const).map((qos) => ({
    name: `publish of QoS ${qos}`,
    bytes: generate({
      cmd: 'publish',
      topic: 'x',
      payload: 'y',
      qos,
      dup: false,
      retain: true,
      messageId: 1,
    }),
  })),
  { name: 'puback', bytes: generate({ cmd: 'puback', messageId: 4_711 }) },
  { name: 'pubrec', bytes: generate({ cmd: 'pubrec', messageId: 1 }) },
  { name: 'pubrel', bytes: generate({ cmd: 'pubrel', messageId: 1 }) },
  { name: 'pubcomp', bytes: generate({ cmd: 'pubcomp', messageId: 1 }) },
  {
    name: 'subscribe',
    bytes: generate({ cmd: 'subscribe', messageId: 1, subscriptions: [{ topic: '#', qos: 1 }] }),
  },
  { name: 'suback', bytes: generate({ cmd: 'suback', messageId: 1, granted: [1] }) },
  {
    name: 'unsubscribe',
    bytes: generate({ cmd: 'unsubscribe', messageId: 1, unsubscriptions: ['#'] }),
  },
  { name: 'unsuback', bytes: generate({ cmd: 'unsuback', messageId: 1, granted: [] }) },
  { name: 'pingreq', bytes: generate({ cmd: 'pingreq' }) },
  { name: 'pingresp', bytes: generate({ cmd: 'pingresp' }) },
  { name: 'disconnect', bytes: generate({ cmd: 'disconnect' }) },
  { name: 'reserved 15', bytes: Buffer.from([0xf0, 0]) },
];

/** Packets that a connected device may send. */
export const SENT_BY_DEVICES = ['puback', 'subscribe', 'unsubscribe', 'pingreq', 'disconnect'];
