import { toAddressGroup } from '@carillon/core/client-address';
import { PROCESS_CLOCK } from '@carillon/runtime/clock';
import { LRUCache } from 'lru-cache';
import { ConsoleError } from '../http/route.ts';
import { createTurns, type TurnClock } from './turns.ts';

const FORGET_MS = 3_600_000;
const MAX_ENTRIES = 10_000;
/** Number of wrong passwords before the first wait: people mistype. */
const FREE_ATTEMPTS = 5;
/** Number of them for one address over all names. */
const FREE_ATTEMPTS_OF_ADDRESS = 30;
/** Number of them for one name over all strangers' addresses. */
const FREE_ATTEMPTS_OF_NAME = 100;
const FIRST_WAIT_MS = 1_000;
/** Maximum wait: an address, and a name from all strangers' addresses, gets at most 17,280 guesses a day. */
const MAX_WAIT_MS = 5_000;
/** Maximum wait of an attempt for its turn. */
const TURN_TIMEOUT_MS = 20_000;

interface Attempts {
  count: number;
  lastAt: number;
}

/** An attempt that has been counted as wrong until it turns out right. */
export interface Attempt {
  /** The password was right. */
  succeed(): void;
  /** The password was not checked. */
  cancel(): void;
}

/** Client of a login attempt. */
interface Client {
  address: string;
  /** Key of a browser that this operator has logged in with before. */
  knownBrowser: string | undefined;
  /** Aborted when the client has left. */
  signal: AbortSignal;
}

/**
 * Slows wrong passwords by name and address, by address, and, after many more of them, by name. A browser that the
 * operator has used before counts by itself, so that no stranger slows it, not even behind its address. Attempts of
 * strangers within a wait are held back, and at its end one of them is drawn at random: continuous attempts at the
 * operator's name or from its address delay the right password of a new browser, by a chance among all that wait. Each
 * process counts for itself.
 */
export function createBackOff(clock: TurnClock = PROCESS_CLOCK) {
  /** Counts attempts by key. The count of a wrong password comes before its check. */
  function createCounts(freeAttempts: number) {
    const byKey = new LRUCache<string, Attempts>({ max: MAX_ENTRIES, ttl: FORGET_MS });
    const turns = createTurns(clock);
    const countOf = (key: string): number => byKey.get(key)?.count ?? 0;
    const readWait = (key: string): number => {
      const attempts = byKey.get(key);
      if (attempts === undefined || attempts.count < freeAttempts) return 0;
      const waitMs = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** (attempts.count - freeAttempts));
      return attempts.lastAt + waitMs - clock.now();
    };
    return {
      /** Counts an attempt when its turn comes. @throws ConsoleError TOO_MANY_ATTEMPTS */
      async add(key: string, signal: AbortSignal): Promise<void> {
        const begin = (): void => {
          byKey.set(key, { count: countOf(key) + 1, lastAt: clock.now() });
        };
        if (await turns.take(key, { readWait: () => readWait(key), begin, signal })) return;
        const seconds = Math.max(1, Math.ceil(readWait(key) / 1_000));
        const text = `Too many wrong passwords. Try again in ${seconds} s.`;
        throw new ConsoleError('TOO_MANY_ATTEMPTS', text, seconds);
      },
      subtract(key: string): void {
        const attempts = byKey.get(key);
        if (attempts !== undefined) byKey.set(key, { ...attempts, count: attempts.count - 1 });
      },
      clear: (key: string): unknown => byKey.delete(key),
    };
  }

  const pairs = createCounts(FREE_ATTEMPTS);
  const addresses = createCounts(FREE_ATTEMPTS_OF_ADDRESS);
  const names = createCounts(FREE_ATTEMPTS_OF_NAME);
  return {
    /**
     * Counts an attempt before its password is checked, so that attempts at the same time are counted too. Waits for
     * its turn up to 20 s.
     *
     * @throws ConsoleError TOO_MANY_ATTEMPTS when its turn has not come
     */
    async begin(nameKey: string, { address, knownBrowser, signal }: Client): Promise<Attempt> {
      const group = toAddressGroup(address);
      // A line feed is in no address and no key.
      const pair = `${knownBrowser ?? group}\n${nameKey}`;
      const timeout = new AbortController();
      const stopTimer = clock.after(TURN_TIMEOUT_MS, () => timeout.abort());
      const ending = AbortSignal.any([signal, timeout.signal]);
      const counted: { counts: typeof pairs; key: string }[] = [];
      const subtractAll = (): void => {
        for (const { counts, key } of counted) counts.subtract(key);
      };
      const add = async (counts: typeof pairs, key: string): Promise<void> => {
        await counts.add(key, ending);
        counted.push({ counts, key });
      };
      try {
        if (knownBrowser === undefined) await add(addresses, group);
        await add(pairs, pair);
        if (knownBrowser === undefined) await add(names, nameKey);
      } catch (error) {
        subtractAll();
        throw error;
      } finally {
        stopTimer();
      }
      return {
        succeed: () => {
          subtractAll();
          pairs.clear(pair);
        },
        cancel: subtractAll,
      };
    },
  };
}
