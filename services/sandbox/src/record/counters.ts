import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/credentials';

interface Tally {
  requests: number;
  accepted: number;
  connections: number;
  /** Requests by the status that answered them; `none`: those that got no answer. */
  statuses: Record<string, number>;
}

/** How much was asked of each channel, and of all together. */
export interface Counts {
  requests: number;
  accepted: number;
  connections: number;
  byChannel: Record<ProviderChannelName, Tally>;
}

export interface Counters {
  count(channel: ProviderChannelName, status: number | null): void;
  connected(channel: ProviderChannelName): void;
  read(): Counts;
  clear(): void;
}

/** Makes counters at zero. */
export function createCounters(): Counters {
  let tallies = zeroes();
  return {
    count: (channel, status) => {
      const tally = tallies[channel];
      const key = status ?? 'none';
      tally.requests += 1;
      if (isAccepted(status)) tally.accepted += 1;
      tally.statuses[key] = (tally.statuses[key] ?? 0) + 1;
    },
    connected: (channel) => {
      tallies[channel].connections += 1;
    },
    read: () => {
      const sum = (of: 'requests' | 'accepted' | 'connections') =>
        PROVIDER_CHANNELS.reduce((total, channel) => total + tallies[channel][of], 0);
      return {
        requests: sum('requests'),
        accepted: sum('accepted'),
        connections: sum('connections'),
        byChannel: structuredClone(tallies),
      };
    },
    clear: () => {
      tallies = zeroes();
    },
  };
}

/** Whether a provider's answer means that it took the push. */
export function isAccepted(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

function zeroes(): Record<ProviderChannelName, Tally> {
  const tally = (): Tally => ({ requests: 0, accepted: 0, connections: 0, statuses: {} });
  return { apns: tally(), fcm: tally(), 'web-push': tally() };
}
