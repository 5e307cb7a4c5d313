import type { ProviderSecret } from '@carillon/core/credentials';
import type { Failure } from '@carillon/core/outcomes';
import type { DeviceDocument, PushOptions } from '@carillon/store/documents';

/**
 * How one try to send to one recipient went. Each channel's `outcome.ts` is the table from its provider's answers
 * to these.
 */
export type Attempt =
  /** The provider took it: the last that can be known. */
  | { kind: 'sent' }
  /**
   * The address is dead. `lastSeenAt`: until when the provider knew it; the device is flagged only if it gave us
   * this address before that (guarantee G16). Absent: now.
   */
  | { kind: 'gone'; flag: 'uninstalled' | 'unsubscribed'; lastSeenAt?: Date }
  /** Never going to work for this recipient. `detail`: the provider's own word, for the log. */
  | { kind: 'rejected'; reason: Failure; detail: string }
  /**
   * Not now. `recipient`: only this one has to wait; `line`: the provider is unwell or asks all of us to slow
   * down, which counts against the line's circuit. `afterMs`: what Retry-After said.
   */
  | { kind: 'retry'; scope: 'recipient' | 'line'; detail: string; afterMs?: number }
  /** The provider refuses our credential: nobody is burnt, the line rests until the credential is put right. */
  | { kind: 'refused'; detail: string };

/** What a provider is to tell the device. */
export interface ProviderPush {
  id: string;
  /** The payload as the JSON text that came in: an object. */
  data: string;
  options: PushOptions;
  expiresAt: Date;
  /** Time to live 0: for devices that are there now. */
  nowOnly: boolean;
}

/** Where a provider reaches a device. */
export type Address = NonNullable<DeviceDocument['provider']>;

/** Sends one push to one address. Always settles, within the client's deadline, and never rejects for what a provider or a network does. */
export type Send = (address: Address) => Promise<Attempt>;

/** One app's way to a provider, made for one revision of its credential. */
export interface ProviderClient {
  /** The line that an address is reached by: what shares one provider's server, one circuit and one window. */
  lineOf(address: Address): string;
  /** Encodes a push once for all its recipients. */
  begin(push: ProviderPush): Send;
  /** Lets requests under way end, then closes all links. */
  close(): Promise<void>;
}

/** A channel that goes through a provider. */
export interface ProviderChannel {
  /** Requests under way at once on a line, over all pushes. */
  window: number;
  connect(secret: ProviderSecret): ProviderClient;
}
