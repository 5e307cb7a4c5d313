import { type Circuit, createCircuit } from '@carillon/core/circuit';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import type { WebhookDocument } from '@carillon/store/documents';
import { LRUCache } from 'lru-cache';
import type { ReceiverResponse } from './client.ts';

/**
 * Requests in flight to one address from which on an app may have only one, so that apps do not wait for each other.
 */
export const SHARED_IN_FLIGHT = 20;
/** Maximum requests in flight to one address. A slow address leaves the other jobs of the queue to other addresses. */
export const MAX_IN_FLIGHT = 100;
/** Maximum addresses of apps whose state is known. An evicted one begins with a closed circuit. */
const MAX_ADDRESSES = 10_000;

/** Reason why nothing is sent to an address now. `busy`: as many requests as it may have are in flight, or a probe. */
export type AddressState = { kind: 'busy' } | { kind: 'open'; waitMs: number };

/** Permission to send one request. */
export interface AddressPermit {
  kind: 'permit';
  /**
   * Reports the response. Any status is a sign of life; the webhook's own delays follow from it.
   *
   * @param response undefined if the request was not sent
   */
  end(response: ReceiverResponse | undefined): void;
}

/** A webhook whose request it is. */
type Sender = Pick<WebhookDocument, '_id' | 'app'>;

/** The state of the addresses that receivers have. */
export type AddressCircuits = ReturnType<typeof createAddressCircuits>;

/**
 * Creates one circuit breaker for each app and address (scheme, host and port), which the app's webhooks share. Requests of
 * several of them without a response open it, whatever the reason: the address, not a webhook, is down or hangs. Apps share
 * none: a host may serve receivers of many, and another app's may be made to hang.
 *
 * @param now monotonic clock, milliseconds
 * @param random from 0 to 1
 */
export function createAddressCircuits(
  now: () => number,
  random: () => number,
  maxAddresses = MAX_ADDRESSES,
) {
  const addresses = new LRUCache<string, { circuit: Circuit; inFlight: number }>({
    max: maxAddresses,
  });
  /** Requests in flight by address, of all apps. */
  const inFlightByOrigin = new Map<string, number>();

  const originOf = (url: string): string => URL.parse(url)?.origin ?? 'none';
  const keyOf = (origin: string, { app }: Sender): string => `${app} ${origin}`;

  function findOrAdd(key: string) {
    const known = addresses.get(key);
    if (known !== undefined) return known;
    const address = { circuit: createCircuit(now, random), inFlight: 0 };
    addresses.set(key, address);
    return address;
  }

  function addInFlight(origin: string, change: number): void {
    const inFlight = (inFlightByOrigin.get(origin) ?? 0) + change;
    if (inFlight === 0) inFlightByOrigin.delete(origin);
    else inFlightByOrigin.set(origin, inFlight);
  }

  /** Returns the reason why a webhook may not send to the address of its URL now; undefined if it may. */
  function check(url: string, sender: Sender): AddressState | undefined {
    const origin = originOf(url);
    const known = addresses.get(keyOf(origin, sender));
    const limit = (known?.inFlight ?? 0) > 0 ? SHARED_IN_FLIGHT : MAX_IN_FLIGHT;
    const isFull = (inFlightByOrigin.get(origin) ?? 0) >= limit;
    const waitMs = known?.circuit.waitMs(sender._id) ?? 0;
    if (known?.circuit.state() === 'open') return { kind: 'open', waitMs };
    return waitMs > 0 || isFull ? { kind: 'busy' } : undefined;
  }

  return {
    check,
    /** Returns a permit for one request, or the reason why there is none. */
    acquire(url: string, sender: Sender): AddressPermit | AddressState {
      const state = check(url, sender);
      if (state !== undefined) return state;
      const origin = originOf(url);
      const address = findOrAdd(keyOf(origin, sender));
      const permit = address.circuit.acquire(sender._id);
      if (typeof permit === 'number') return { kind: 'open', waitMs: permit };
      address.inFlight += 1;
      addInFlight(origin, 1);
      return {
        kind: 'permit',
        end(response) {
          address.inFlight -= 1;
          addInFlight(origin, -1);
          if (response === undefined) address.circuit.release(permit);
          else if ('status' in response) address.circuit.onAnswered(permit, true);
          else if (response.error === NOT_ALLOWED) address.circuit.release(permit);
          else address.circuit.onFailure(permit);
        },
      };
    },
  };
}
