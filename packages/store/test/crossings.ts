import { afterAll, beforeAll } from '@jest/globals';
import { startCuttingProxy } from '../../../test/support/cutting-proxy.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import type { StoreUnderTest } from './store-under-test.ts';
import { START_TIMEOUT_MS } from './use-store.ts';

/** Pairs of processes, which work on documents of their own. */
const PAIRS = 6;

/** Calls of two processes at the same time. */
export interface Crossing<T> {
  /** Prepares the documents of one crossing. */
  given(): Promise<T>;
  /** Is held before one of its statements. */
  held(store: TestStore, given: T): Promise<unknown>;
  /** Runs from its beginning to its end while the other is held. */
  meanwhile(store: TestStore, given: T): Promise<unknown>;
  check(given: T): Promise<unknown>;
}

/**
 * Connects pairs of processes to the store of a test file.
 *
 * @returns a function that repeats a crossing for each statement before which the one process can be held, and once more
 *   when it has ended; returns how many crossings there were
 */
export function useCrossings(under: StoreUnderTest) {
  const pairs: Pair[] = [];
  beforeAll(async () => {
    for (let n = 0; n < PAIRS; n += 1) pairs.push(await startPair(under));
  }, START_TIMEOUT_MS);
  afterAll(() => Promise.all(pairs.map(({ stop }) => stop())));

  return async <T>({ given, held, meanwhile, check }: Crossing<T>): Promise<number> => {
    let crossings = 0;
    let isOver = false;
    const crossOne = async ({ proxy, holdable, free }: Pair) => {
      crossings += 1;
      const hold = proxy.holdAt(crossings);
      const documents = await given();
      const running = held(holdable, documents);
      const hasEnded = await Promise.race([running.then(() => true), hold.reached]);
      try {
        await meanwhile(free, documents);
      } finally {
        hold.release();
        await running;
      }
      await check(documents);
      isOver ||= hasEnded === true;
    };
    await Promise.all(
      pairs.map(async (pair) => {
        while (!isOver) await crossOne(pair);
      }),
    );
    return crossings;
  };
}

export type Pair = Awaited<ReturnType<typeof startPair>>;

/** Connects two processes: the statements of the one can be held. */
export async function startPair({ uri, connect }: StoreUnderTest) {
  const { port, pathname } = new URL(uri);
  const proxy = await startCuttingProxy(Number(port));
  const proxied = `mongodb://127.0.0.1:${proxy.port}${pathname}`;
  const holdable = await openStore({ uri: proxied, appName: 'test' });
  const stop = async () => {
    await holdable.close();
    await proxy.stop();
  };
  return { proxy, holdable, free: await connect(), stop };
}
