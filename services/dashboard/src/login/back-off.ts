import { toAddressGroup } from '@carillon/core/client-address';
import { LRUCache } from 'lru-cache';
import { ConsoleError } from '../http/route.ts';

const FORGET_MS = 3_600_000;
const MAX_ENTRIES = 10_000;
/** Wrong passwords before the first wait: people mistype. */
const FREE_ATTEMPTS = 5;
/** The same for one address over all names. */
const FREE_ATTEMPTS_OF_ADDRESS = 30;
const FIRST_WAIT_MS = 1_000;
const MAX_WAIT_MS = 30_000;

interface Attempts {
  count: number;
  lastAt: number;
}

/** An attempt that has been counted as wrong until it turns out right. */
export interface Attempt {
  /** The password was right. */
  succeed(): void;
  /** The password was not checked. */
  withdraw(): void;
}

/** Client of a login attempt. */
interface Client {
  address: string;
  /** Key of a browser that this operator has logged in with before. */
  knownBrowser: string | undefined;
}

/**
 * Slows wrong passwords by name and address. A wait never concerns the name alone, so that nobody can lock an operator
 * out from another address, and a browser that the operator has used before counts by itself, also
 * when others share its address. Attempts within a wait are refused unchecked and do not extend it. Each process counts for itself.
 */
export function createBackOff(now: () => number = () => performance.now()) {
  const pairs = new LRUCache<string, Attempts>({ max: MAX_ENTRIES, ttl: FORGET_MS });
  const addresses = new LRUCache<string, Attempts>({ max: MAX_ENTRIES, ttl: FORGET_MS });

  function requireNoWait(attempts: Attempts | undefined, free: number): void {
    if (attempts === undefined || attempts.count < free) return;
    const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts.count - free));
    const leftMs = attempts.lastAt + waitMs - now();
    if (leftMs <= 0) return;
    const seconds = Math.ceil(leftMs / 1_000);
    const text = `Too many wrong passwords. Try again in ${seconds} s.`;
    throw new ConsoleError('TOO_MANY_ATTEMPTS', text, seconds);
  }

  return {
    /**
     * Counts an attempt before its password is checked, so that attempts at the same time are counted too.
     *
     * @throws ConsoleError TOO_MANY_ATTEMPTS within a wait
     */
    begin(nameKey: string, { address, knownBrowser }: Client): Attempt {
      const group = toAddressGroup(address);
      const isKnown = knownBrowser !== undefined;
      // A line feed is in no address and no key.
      const pair = `${isKnown ? knownBrowser : group}\n${nameKey}`;
      if (!isKnown) requireNoWait(addresses.get(group), FREE_ATTEMPTS_OF_ADDRESS);
      requireNoWait(pairs.get(pair), FREE_ATTEMPTS);
      const before = pairs.get(pair);
      const at = now();
      pairs.set(pair, { count: (before?.count ?? 0) + 1, lastAt: at });
      if (!isKnown) addresses.set(group, { count: countOf(addresses.get(group)) + 1, lastAt: at });
      const giveBackAddress = (): void => {
        const counted = addresses.get(group);
        if (!isKnown && counted !== undefined) {
          addresses.set(group, { ...counted, count: Math.max(0, counted.count - 1) });
        }
      };
      return {
        succeed: () => {
          pairs.delete(pair);
          giveBackAddress();
        },
        withdraw: () => {
          if (before === undefined) pairs.delete(pair);
          else pairs.set(pair, before);
          giveBackAddress();
        },
      };
    },
  };
}

function countOf(attempts: Attempts | undefined): number {
  return attempts?.count ?? 0;
}
