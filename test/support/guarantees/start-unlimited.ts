import { removeRateLimit } from '../carillon.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';

/** Starts a stack without limits of requests, for tests that poll and that send much at once. */
export async function startStackWithoutLimits({
  env,
  ...options
}: StackOptions = {}): Promise<Stack> {
  const stack = await startStack({ ...options, env: { CARILLON_ADDRESS_LIMITS: 'off', ...env } });
  await removeRateLimit(stack);
  return stack;
}
