import { openMongo, type TestMongo } from '../mongo.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';
import { type Crowd, gatherCrowd, keepConnected } from './crowd.ts';

/** A stack with a crowd whose real devices stay connected whatever breaks. */
export interface Scene {
  stack: Stack;
  mongo: TestMongo;
  crowd: Crowd;
  close(): Promise<void>;
}

/**
 * Starts a stack of its own and gathers a crowd.
 *
 * @param size.real how many of the registered devices are connected
 */
export async function openScene(
  size: { registered: number; real: number },
  options: StackOptions = {},
): Promise<Scene> {
  const env = { CARILLON_ADDRESS_LIMITS: 'off', ...options.env };
  const stack = await startStack({ ...options, env });
  const mongo = await openMongo(stack.dev);
  try {
    const crowd = await gatherCrowd(stack, mongo, size);
    const links = keepConnected(crowd.devices);
    const close = async () => {
      await links.stop();
      await mongo.close();
      await stack.stop();
    };
    return { stack, mongo, crowd, close };
  } catch (error) {
    await mongo.close();
    await stack.stop();
    throw error;
  }
}
