import type { ProviderSecret } from '@carillon/core/channels';
import type { Failure } from '@carillon/core/outcomes';
import type { ProviderPatches } from '@carillon/core/provider-fields';
import type { PushOptions } from '@carillon/core/push-options';
import type { DeviceDocument } from '@carillon/store/documents';

/**
 * Result of one attempt to send to one recipient. Each channel's `outcome.ts` is the table from its provider's
 * responses to these.
 */
export type Attempt =
  /** The provider accepted the push: no later state is known. */
  | { kind: 'sent' }
  /**
   * The address is invalid now. `lastSeenAt` is the last moment at which it was valid; absent means now. The device is
   * flagged only if it registered the address before that moment (guarantee G16).
   */
  | { kind: 'gone'; flag: 'uninstalled' | 'unsubscribed'; detail: string; lastSeenAt?: Date }
  /**
   * Permanently impossible for this recipient. `detail`: the provider's error, or with `isUnsent` why nothing was sent.
   */
  | { kind: 'rejected'; reason: Failure; detail: string; isUnsent?: true }
  /**
   * Deferred. `connection` means that the provider has not processed the request, which is repeated at once the first
   * time. With `recipient` only this one waits. `upstream` means that the provider fails or throttles; if several
   * recipients get such an answer, it concerns all. `afterMs` is the earliest time of the next attempt, by the
   * Retry-After.
   */
  | {
      kind: 'retry';
      scope: 'connection' | 'recipient' | 'upstream';
      detail: string;
      afterMs?: number;
    }
  /** The provider refuses our credential, or says so about this recipient only. */
  | { kind: 'auth-error'; detail: string }
  /** Never written to the provider: when its turn came, the push could not be sent any more. */
  | { kind: 'withheld' };

/** An attempt that was made. */
export type CompletedAttempt = Exclude<Attempt, { kind: 'withheld' }>;

export const WITHHELD: Attempt = { kind: 'withheld' };

/** A push as the providers' clients take it. */
export interface ProviderPush {
  id: string;
  /** The payload: the JSON text of the request, an object. */
  data: string;
  options: PushOptions;
  /** Fields that are merged over what a channel makes. */
  patches?: ProviderPatches;
  expiresAt: Date;
  /** Time to live 0: only for devices that are reachable now. */
  nowOnly: boolean;
  /** For FCM: devices show `title` and `message` of the payload. */
  hasFcmNotification?: boolean;
}

/** Address of a device at a provider. */
export type Address = NonNullable<DeviceDocument['provider']>;

/** Sends one push to one address. Settles within the client's deadline; a provider's or network's failure is a value. */
export type Send = (address: Address) => Promise<Attempt>;

/**
 * Checks whether a request may be written now. Synchronous, so that no other code runs between the check and the write.
 */
export type MaySend = () => boolean;

/** Client of a provider for one revision of an app's credential. */
export interface ProviderClient {
  /** Returns the key of the address's upstream: addresses of one key share a provider's server, circuit and window. */
  upstreamKeyOf(address: Address): string;
  /** Checks whether the address's server is of a provider or the operator, as each is if this is absent. */
  isKnown?(address: Address): boolean;
  /**
   * Encodes a push once for all its recipients.
   *
   * @param maySend called right before a request is written, however long that waited for a token or a connection
   */
  prepare(push: ProviderPush, maySend: MaySend): Send;
  /** Waits for requests in flight, then closes all connections. */
  close(): Promise<void>;
}

/** A channel through a provider. */
export interface ProviderChannel {
  /** Requests in flight at once per upstream, over all pushes: from the channel's descriptor. */
  window: number;
  connect(secret: ProviderSecret): ProviderClient;
}

/** Loads a channel with its provider's library; a repeated call returns the same. */
export type LoadProviderChannel = () => Promise<ProviderChannel>;
