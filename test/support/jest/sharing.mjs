import { readFileSync } from 'node:fs';

/** Checks that a test file uses the stack that calm files share. @param {string} path */
export function isSharing(path) {
  return readFileSync(path, 'utf8').includes('useSharedStack(');
}
