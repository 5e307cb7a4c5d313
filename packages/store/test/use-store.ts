import { afterAll, beforeAll } from '@jest/globals';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

/** A busy machine takes long to create all indexes. */
export const START_TIMEOUT_MS = 300_000;

/** Gives a test file a store on a database of its own, which is there from its first test to its last. */
export function useStore(): StoreUnderTest {
  const under = { store: {} } as StoreUnderTest;
  beforeAll(async () => {
    const { store, ...started } = await startStore();
    Object.assign(under, started);
    Object.assign(under.store, store);
  }, START_TIMEOUT_MS);
  afterAll(() => under.stop?.());
  return under;
}
