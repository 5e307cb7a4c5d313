import { z } from 'zod';

/** Description of a channel that the API, the worker, the command line and the sandbox share. */
export interface ChannelDescriptor {
  /** Name in stored batches, queue names, metrics and the command line. */
  readonly name: string;
  /** Offset of the channel's batch within a page of a fan-out. Stored in batch ids: never changed, never reused. */
  readonly number: number;
  /** Platforms (`device.platform` on the wire) that this channel reaches first. A platform belongs to one channel. */
  readonly platforms: readonly string[];
  /** Devices send receipts over this channel, so that they can be listed as pending. */
  readonly isTracked: boolean;
  /** Present when pushes go through a provider, with a credential for each app. */
  readonly provider?: {
    /** Requests in flight at once per upstream in one worker. */
    readonly window: number;
    /** Address of a device at the provider, as it is stored. */
    readonly address: z.ZodObject;
    /** Secrets that an app can have for the channel, distinguished by `kind`. */
    readonly secrets: readonly z.ZodObject[];
  };
}

/** Address at which a provider is reached instead of its own: a sandbox, or a proxy in the operator's network. */
export const hostOverride = z.object({
  host: z.string().min(1),
  port: z.int().min(1).max(65_535),
  /** Certificate of the authority that signed the gateway's certificate, PEM. */
  ca: z.string().optional(),
});
export type HostOverride = z.infer<typeof hostOverride>;
