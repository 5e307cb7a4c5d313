import { afterAll, afterEach, beforeAll } from '@jest/globals';
import { openMongo, type TestMongo } from '../mongo.ts';
import type { Dev } from '../stack/dev-file.ts';
import { createFleet, type Fleet } from './devices.ts';

/**
 * Registers the hooks that lend a stack to a test file, with its database, before all tests, and that disconnect the devices of
 * the returned fleet after each.
 */
export function lendTo<T extends { dev: Dev; stop?(): Promise<void> }>(
  lend: () => Promise<T>,
  use: (stack: T, mongo: TestMongo) => void,
): Fleet {
  let stack: T | undefined;
  let mongo: TestMongo | undefined;
  const fleet = createFleet(() => (stack as T).dev);
  beforeAll(async () => {
    stack = await lend();
    mongo = await openMongo(stack.dev);
    use(stack, mongo);
  });
  afterEach(() => fleet.disconnectAll());
  afterAll(async () => {
    await mongo?.close();
    await stack?.stop?.();
  });
  return fleet;
}
