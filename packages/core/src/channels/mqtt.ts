import type { ChannelDescriptor } from './descriptor.ts';

/** Devices that hold an MQTT connection to a device gateway. */
export const mqtt = {
  name: 'mqtt',
  number: 0,
  platforms: ['android', 'electron', 'python'],
  isTracked: true,
} as const satisfies ChannelDescriptor;
