import { startReplicaSet } from '../faults/replica-set.ts';
import type { StackOptions } from '../stack/env.ts';

/** The MongoDB of a stack, which the stack does not run itself. */
export interface StackMongodb {
  env: { MONGODB_URI: string };
  remove(): Promise<void>;
}

/**
 * Starts a replica set of three for a stack in a run of `npm test -- --topology replica-set`.
 *
 * @returns undefined if the stack runs a MongoDB itself, or the test has one
 */
export async function startStackMongodb(
  { env, ownMongodb = false }: Pick<StackOptions, 'env' | 'ownMongodb'>,
  isLent: boolean,
): Promise<StackMongodb | undefined> {
  if (process.env.CARILLON_TEST_TOPOLOGY !== 'replica-set') return undefined;
  if (ownMongodb || env?.MONGODB_URI !== undefined) return undefined;
  const { uri, remove } = await startReplicaSet({ isLent });
  return { env: { MONGODB_URI: uri }, remove };
}
