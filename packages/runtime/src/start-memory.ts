import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Collects the garbage that loading the modules has left, some 20 MB, which V8 would keep in a process at rest. Blocks for
 * some 50 ms: call it before the process serves anything.
 */
export function releaseStartMemory(): void {
  // Node has no function for it; --expose-gc puts one into contexts that are made later.
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  if (typeof collect === 'function') collect();
}
