/** The platforms of registered devices (`device.platform` on the wire). */
export const PLATFORMS = ['android', 'electron', 'python', 'ios', 'web'] as const;
export type Platform = (typeof PLATFORMS)[number];

/** Our ways out. */
export const CHANNELS = ['mqtt', 'apns', 'fcm', 'web-push'] as const;
export type Channel = (typeof CHANNELS)[number];

const CHANNEL_OF: Record<Platform, Channel> = {
  android: 'mqtt',
  electron: 'mqtt',
  python: 'mqtt',
  ios: 'apns',
  web: 'web-push',
};

/** The first channel by which a device of this platform is reached. */
export function channelOf(platform: Platform): Channel {
  return CHANNEL_OF[platform];
}

/** Whether a delivery's receipt is known, so that the device can be listed as pending. */
export function isTracked(platform: Platform): boolean {
  return CHANNEL_OF[platform] === 'mqtt';
}
