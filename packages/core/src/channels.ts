import { z } from 'zod';
import { apns } from './channels/apns.ts';
import type { ChannelDescriptor } from './channels/descriptor.ts';
import { fcm } from './channels/fcm.ts';
import { mqtt } from './channels/mqtt.ts';
import { webPush } from './channels/web-push.ts';

/** All channels, in order of their numbers. Append only; a further channel is a file in channels/ and an entry here. */
export const CHANNEL_REGISTRY = [
  mqtt,
  apns,
  fcm,
  webPush,
] as const satisfies readonly ChannelDescriptor[];
type Descriptor = (typeof CHANNEL_REGISTRY)[number];
type ProviderDescriptor = Extract<Descriptor, { provider: object }>;
type SecretSchema = ProviderDescriptor['provider']['secrets'][number];

/**
 * Batch numbers that a page of a fan-out reserves, one for each channel number. The number is fixed: workers of two
 * releases share the numbering of a push, and with another stride the batches of two pages could collide.
 */
export const BATCH_NUMBERS_PER_PAGE = 16;

export type Channel = Descriptor['name'];
export const CHANNELS: readonly Channel[] = CHANNEL_REGISTRY.map(({ name }) => name);

/** The channels that go through a provider, each with credentials of its own. */
export type ProviderChannelName = ProviderDescriptor['name'];
const PROVIDER_DESCRIPTORS = CHANNEL_REGISTRY.filter(
  (channel): channel is ProviderDescriptor => 'provider' in channel,
);
export const PROVIDER_CHANNELS: readonly ProviderChannelName[] = PROVIDER_DESCRIPTORS.map(
  ({ name }) => name,
);

const WINDOWS = new Map<ProviderChannelName, number>(
  PROVIDER_DESCRIPTORS.map(({ name, provider }) => [name, provider.window]),
);

/** Returns the requests that a provider gets at once from each upstream of a channel. */
export function providerWindowOf(channel: ProviderChannelName): number {
  return WINDOWS.get(channel) ?? 1;
}

/** Platforms of registered devices (`device.platform` on the wire). */
export type Platform = Descriptor['platforms'][number];
export const PLATFORMS: readonly Platform[] = CHANNEL_REGISTRY.flatMap(
  ({ platforms }): readonly Platform[] => platforms,
);

const BY_PLATFORM = new Map<string, Descriptor>(
  CHANNEL_REGISTRY.flatMap((channel) => channel.platforms.map((name) => [name, channel] as const)),
);
const NUMBERS = new Map<Channel, number>(
  CHANNEL_REGISTRY.map(({ name, number }) => [name, number]),
);

/**
 * Finds the first channel by which a device of this platform is reached.
 *
 * @returns undefined if a newer release than this process registered the device
 */
export function findChannel(platform: string): Channel | undefined {
  return BY_PLATFORM.get(platform)?.name;
}

/**
 * Returns the first channel by which a device of this platform is reached.
 *
 * @throws Error when the device was registered by a newer release than this process
 */
export function channelFor(platform: Platform): Channel {
  const channel = findChannel(platform);
  if (channel === undefined) throw new Error(`the platform ${platform} is of a newer release`);
  return channel;
}

/**
 * What a device's history says about its way, beside its platform: `fcm` for one that has an FCM token and has never
 * connected over MQTT since it registered, or whose token is of an iOS app; `mqtt` for an Android device that has connected.
 */
export const WAYS = ['fcm', 'mqtt'] as const;
export type Way = (typeof WAYS)[number];

/**
 * Returns the channel by which a device gets its pushes.
 *
 * @param usesFcm whether the device's app uses FCM for Android, and has a credential for it
 * @throws Error when the device was registered by a newer release than this process
 */
export function wayOf(
  { platform, way }: { platform: Platform; way?: Way | undefined },
  usesFcm: boolean,
): Channel {
  const isByFcm = way === 'fcm' && (usesFcm || platform !== 'android');
  return isByFcm ? 'fcm' : channelFor(platform);
}

/** Checks whether devices of a platform may have another way than their platform's. */
export function mayGoByFcm(platform: string, usesFcm: boolean): boolean {
  return platform === 'ios' || (platform === 'android' && usesFcm);
}

/** Returns the channel's offset among the batch numbers of a page. */
export function channelNumber(channel: Channel): number {
  const number = NUMBERS.get(channel);
  if (number === undefined) throw new Error(`the channel ${channel} is of a newer release`);
  return number;
}

/** Checks whether a delivery's receipt is known, so that the device can be listed as pending. */
export function isTracked(platform: Platform): boolean {
  return BY_PLATFORM.get(platform)?.isTracked === true;
}

/** Address of a device at its provider. */
export type ProviderAddress = z.infer<ProviderDescriptor['provider']['address']>;

/** Secret of a provider as it is stored: checked when it was saved, sealed at rest. */
export const providerSecret = z.discriminatedUnion(
  'kind',
  PROVIDER_DESCRIPTORS.flatMap(({ provider }): readonly SecretSchema[] => provider.secrets) as [
    SecretSchema,
    ...SecretSchema[],
  ],
);
export type ProviderSecret = z.infer<SecretSchema>;
export type SecretOf<K extends ProviderSecret['kind']> = Extract<ProviderSecret, { kind: K }>;
