import { LRUCache } from 'lru-cache';
import { type Circuit, createCircuit } from '../deliver/circuit.ts';
import { ADDRESS_ERRORS } from './allowed-hosts.ts';
import type { ReceiverResponse } from './client.ts';

/** Requests in flight to one address. A slow one leaves the other jobs of the queue to other addresses. */
export const MAX_IN_FLIGHT = 20;
/** Addresses whose state is known. An evicted one begins with a closed circuit. */
const MAX_ADDRESSES = 10_000;

const NOT_SENT: ReadonlySet<string> = new Set(Object.values(ADDRESS_ERRORS));

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

/** The state of the addresses that receivers have. */
export type AddressCircuits = ReturnType<typeof createAddressCircuits>;

/**
 * Creates one circuit breaker for each address (scheme, host and port), which the webhooks of all apps share. Requests
 * of several webhooks without a response open it, whatever the reason: the address, not a webhook, is down or hangs.
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

  const keyOf = (url: string): string => URL.parse(url)?.origin ?? 'none';

  function findOrAdd(url: string) {
    const known = addresses.get(keyOf(url));
    if (known !== undefined) return known;
    const address = { circuit: createCircuit(now, random), inFlight: 0 };
    addresses.set(keyOf(url), address);
    return address;
  }

  /** Returns the reason why a webhook may not send to the address of its URL now; undefined if it may. */
  function check(url: string, webhook: string): AddressState | undefined {
    const known = addresses.get(keyOf(url));
    if (known === undefined) return undefined;
    const { circuit, inFlight } = known;
    const waitMs = circuit.waitMs(webhook);
    if (circuit.state() === 'open') return { kind: 'open', waitMs };
    return waitMs > 0 || inFlight >= MAX_IN_FLIGHT ? { kind: 'busy' } : undefined;
  }

  return {
    check,
    /** Returns a permit for one request, or the reason why there is none. */
    acquire(url: string, webhook: string): AddressPermit | AddressState {
      const state = check(url, webhook);
      if (state !== undefined) return state;
      const address = findOrAdd(url);
      const permit = address.circuit.acquire(webhook);
      if (typeof permit === 'number') return { kind: 'open', waitMs: permit };
      address.inFlight += 1;
      return {
        kind: 'permit',
        end(response) {
          address.inFlight -= 1;
          if (response === undefined) address.circuit.release(permit);
          else if ('status' in response) address.circuit.onAnswered(permit, true);
          else if (NOT_SENT.has(response.error)) address.circuit.release(permit);
          else address.circuit.onFailure(permit);
        },
      };
    },
  };
}
