import { PROVIDER_CHANNELS, type ProviderChannelName } from '@carillon/core/credentials';
import { z } from 'zod';

const every = z.int().min(1).nullable();

/** The body of `PUT /servers/CHANNEL`: how a whole server behaves from now on. */
export const conductSchema = z
  .strictObject({
    /** GOAWAY with each N-th request; what is under way is still answered. */
    goawayEvery: every,
    /** Streams at once on a connection (HTTP/2); null: as usual. */
    streamLimit: z.int().min(1).max(1_000_000).nullable(),
    /** Each N-th request has its connection cut. */
    dropEvery: every,
    /** Takes connections and requests, and answers nothing. */
    blackHole: z.boolean(),
    /** Closes each new connection at once. */
    refuse: z.boolean(),
    delayMs: z.int().min(0).max(600_000),
    /** Tokens of access issued up to now have expired. */
    expireTokens: z.literal(true),
    refuseCredential: z.boolean(),
  })
  .partial();
type Change = z.infer<typeof conductSchema>;

/** How a server behaves. */
export interface Conduct {
  goawayEvery: number | null;
  streamLimit: number | null;
  dropEvery: number | null;
  blackHole: boolean;
  refuse: boolean;
  delayMs: number;
  refuseCredential: boolean;
}

/** What a server does when its conduct changes. */
export interface ConductListener {
  streamLimit?(limit: number | null): void;
  expireTokens?(): void;
}

const NORMAL: Conduct = {
  goawayEvery: null,
  streamLimit: null,
  dropEvery: null,
  blackHole: false,
  refuse: false,
  delayMs: 0,
  refuseCredential: false,
};

export interface Conducts {
  /** The present conduct of a server: the same object always. */
  of(channel: ProviderChannelName): Readonly<Conduct>;
  change(channel: ProviderChannelName, change: Change): void;
  listen(channel: ProviderChannelName, listener: ConductListener): void;
  /** Everything as usual. */
  reset(): void;
}

/** Makes servers that behave. */
export function createConducts(): Conducts {
  const conducts: Record<ProviderChannelName, Conduct> = {
    apns: { ...NORMAL },
    fcm: { ...NORMAL },
    'web-push': { ...NORMAL },
  };
  const listeners: [ProviderChannelName, ConductListener][] = [];
  const tell = (channel: ProviderChannelName, say: (listener: ConductListener) => void) => {
    for (const [name, listener] of listeners) if (name === channel) say(listener);
  };

  function change(channel: ProviderChannelName, { expireTokens, ...change }: Change): void {
    const given = Object.entries(change).filter(([, value]) => value !== undefined);
    Object.assign(conducts[channel], Object.fromEntries(given));
    const { streamLimit } = change;
    if (streamLimit !== undefined) tell(channel, (listener) => listener.streamLimit?.(streamLimit));
    if (expireTokens === true) tell(channel, (listener) => listener.expireTokens?.());
  }

  return {
    of: (channel) => conducts[channel],
    change,
    listen: (channel, listener) => listeners.push([channel, listener]),
    reset: () => {
      for (const channel of PROVIDER_CHANNELS) change(channel, NORMAL);
    },
  };
}
