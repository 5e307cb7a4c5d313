import { type Channel, findChannel, type ProviderChannelName } from '@carillon/core/channels';
import type { Failure } from '@carillon/core/outcomes';
import type { ReachableDevice } from '@carillon/store/devices';

/**
 * Finds another channel over which a device is reached that has changed its address since its batch was made, or whose app has
 * removed its credential: the channel of its address, or its inbox.
 */
export function findOtherChannel(
  { platform, provider, replacedBy }: ReachableDevice,
  name: ProviderChannelName,
  hasCredentials: boolean,
): Channel | undefined {
  if (provider !== undefined && provider.channel !== name) return provider.channel;
  // Nobody reads the inbox of a former device.
  const hasInbox = findChannel(platform) === 'mqtt' && replacedBy === undefined;
  const hasAddress = provider !== undefined && hasCredentials;
  return hasInbox && !hasAddress ? 'mqtt' : undefined;
}

/**
 * Returns the channel over which a batch goes on; undefined if it stays. It goes on over MQTT only if all that is left does:
 * there each recipient gets an inbox row, also a phone that never connects.
 */
export function findNextChannel(
  /** Recipients by the other channel that reaches them. */
  movers: ReadonlyMap<Channel, number>,
  /** Recipients without an outcome. */
  left: number,
): Channel | undefined {
  const byProvider = [...movers.keys()].find((channel) => channel !== 'mqtt');
  const isAllByMqtt = movers.get('mqtt') === left;
  return byProvider ?? (isAllByMqtt ? 'mqtt' : undefined);
}

/** Explains why no client sends to a device. */
export function explainNoClient(
  { provider }: ReachableDevice,
  name: ProviderChannelName,
  hasCredentials: boolean,
): Failure {
  if (!hasCredentials) return 'channel-not-configured';
  return provider?.channel === name ? 'wrong-credential' : 'no-provider-address';
}
