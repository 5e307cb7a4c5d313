import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';

interface ChannelCounts {
  requests: number;
  accepted: number;
  connections: number;
  /** Number of requests by response status; `none`: requests without a response. */
  statuses: Record<string, number>;
}

/** Counts of requests by channel and in total. */
export interface RequestCounts {
  requests: number;
  accepted: number;
  connections: number;
  byChannel: Record<ProviderChannelName, ChannelCounts>;
}

/** Creates counters that start at zero. */
export function createCounters() {
  let countsByChannel = createZeroCounts();
  return {
    countRequest: (channel: ProviderChannelName, status: number | null): void => {
      const counts = countsByChannel[channel];
      const key = status ?? 'none';
      counts.requests += 1;
      if (isAccepted(status)) counts.accepted += 1;
      counts.statuses[key] = (counts.statuses[key] ?? 0) + 1;
    },
    countConnection: (channel: ProviderChannelName): void => {
      countsByChannel[channel].connections += 1;
    },
    read: (): RequestCounts => {
      const sum = (field: 'requests' | 'accepted' | 'connections') =>
        PROVIDER_CHANNELS.reduce((total, channel) => total + countsByChannel[channel][field], 0);
      return {
        requests: sum('requests'),
        accepted: sum('accepted'),
        connections: sum('connections'),
        byChannel: structuredClone(countsByChannel),
      };
    },
    clear: (): void => {
      countsByChannel = createZeroCounts();
    },
  };
}

/** Checks whether a response status means that the provider accepted the push. */
export function isAccepted(status: number | null): boolean {
  return status !== null && status >= 200 && status < 300;
}

function createZeroCounts(): Record<ProviderChannelName, ChannelCounts> {
  const createCounts = (): ChannelCounts => ({
    requests: 0,
    accepted: 0,
    connections: 0,
    statuses: {},
  });
  return Object.fromEntries(
    PROVIDER_CHANNELS.map((channel) => [channel, createCounts()]),
  ) as Record<ProviderChannelName, ChannelCounts>;
}
