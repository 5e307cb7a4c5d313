import { afterAll, beforeAll } from '@jest/globals';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

/** Gives a test file a store on a database of its own, which is there from its first test to its last. */
export function useStore(): StoreUnderTest {
  const under = { store: {} } as StoreUnderTest;
  beforeAll(async () => {
    const { store, ...started } = await startStore();
    Object.assign(under, started);
    Object.assign(under.store, store);
  });
  afterAll(() => under.stop?.());
  return under;
}
