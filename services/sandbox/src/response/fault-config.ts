import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/channels';
import { z } from 'zod';

const everyNthSchema = z.int().min(1).nullable();

/** The body of `PUT /servers/CHANNEL`: faults of a whole server. */
export const faultConfigSchema = z
  .strictObject({
    /** Sends GOAWAY at each N-th request; requests in progress still get a response. */
    goawayEvery: everyNthSchema,
    /** Maximum concurrent streams on a connection (HTTP/2); null means the default. */
    streamLimit: z.int().min(1).max(1_000_000).nullable(),
    /** Destroys the connection at each N-th request. */
    dropEvery: everyNthSchema,
    /** Accepts connections and requests and never responds. */
    blackHole: z.boolean(),
    /** Closes each new connection at once. */
    refuse: z.boolean(),
    delayMs: z.int().min(0).max(600_000),
    /** Expires all access tokens issued so far. */
    expireTokens: z.literal(true),
    refuseCredential: z.boolean(),
    /** Web Push: checks the contact of signatures as Apple does. */
    checkContact: z.boolean(),
  })
  .partial();
type FaultConfigChange = z.infer<typeof faultConfigSchema>;

/** The current faults of a server. */
export interface FaultConfig {
  goawayEvery: number | null;
  streamLimit: number | null;
  dropEvery: number | null;
  blackHole: boolean;
  refuse: boolean;
  delayMs: number;
  refuseCredential: boolean;
  checkContact: boolean;
}

/** Callbacks for changes that a server applies to open connections and tokens. */
export interface FaultConfigListener {
  streamLimit?(limit: number | null): void;
  expireTokens?(): void;
}

const NO_FAULTS: FaultConfig = {
  goawayEvery: null,
  streamLimit: null,
  dropEvery: null,
  blackHole: false,
  refuse: false,
  delayMs: 0,
  refuseCredential: false,
  checkContact: false,
};

export type FaultConfigs = ReturnType<typeof createFaultConfigs>;

/** Creates a configuration without faults. */
export function createFaultConfigs() {
  const faultConfigs = Object.fromEntries(
    PROVIDER_CHANNELS.map((channel) => [channel, { ...NO_FAULTS }]),
  ) as Record<ProviderChannelName, FaultConfig>;
  const listeners: [ProviderChannelName, FaultConfigListener][] = [];
  const notify = (
    channel: ProviderChannelName,
    callback: (listener: FaultConfigListener) => void,
  ) => {
    for (const [name, listener] of listeners) if (name === channel) callback(listener);
  };

  function change(
    channel: ProviderChannelName,
    { expireTokens, ...change }: FaultConfigChange,
  ): void {
    const definedValues = Object.entries(change).filter(([, value]) => value !== undefined);
    Object.assign(faultConfigs[channel], Object.fromEntries(definedValues));
    const { streamLimit } = change;
    if (streamLimit !== undefined)
      notify(channel, (listener) => listener.streamLimit?.(streamLimit));
    if (expireTokens === true) notify(channel, (listener) => listener.expireTokens?.());
  }

  return {
    /** Returns the current faults of a server: always the same, live object. */
    get: (channel: ProviderChannelName): Readonly<FaultConfig> => faultConfigs[channel],
    change,
    subscribe: (channel: ProviderChannelName, listener: FaultConfigListener): void =>
      void listeners.push([channel, listener]),
    /** Removes all faults. */
    reset: (): void => {
      for (const channel of PROVIDER_CHANNELS) change(channel, NO_FAULTS);
    },
  };
}
