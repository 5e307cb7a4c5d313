import { openMongo, type TestMongo } from '../mongo.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';
import { createDevicePool, type DevicePool, keepConnected } from './device-pool.ts';

/** A stack with a pool of devices, the real ones of which reconnect after every fault. */
export interface Fixture {
  stack: Stack;
  mongo: TestMongo;
  pool: DevicePool;
  close(): Promise<void>;
}

/**
 * Starts a stack of its own and creates a pool of devices.
 *
 * @param size.real how many of the registered devices are connected
 */
export async function openFixture(size: PoolSize, options: StackOptions = {}): Promise<Fixture> {
  const env = { CARILLON_ADDRESS_LIMITS: 'off', ...options.env };
  return openFixtureOn(await startStack({ ...options, env }), size);
}

/** Creates the pool on a stack, which is stopped or given back with it. */
export async function openFixtureOn(stack: Stack, size: PoolSize): Promise<Fixture> {
  const mongo = await openMongo(stack.dev);
  try {
    const pool = await createDevicePool(stack, mongo, size);
    const reconnector = keepConnected(pool.devices);
    const close = async () => {
      await reconnector.stop();
      await mongo.close();
      await stack.stop();
    };
    return { stack, mongo, pool, close };
  } catch (error) {
    await mongo.close();
    await stack.stop();
    throw error;
  }
}

interface PoolSize {
  registered: number;
  real: number;
}
